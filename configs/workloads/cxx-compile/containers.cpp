// Workload "cxx-compile": a compiler on a template-heavy translation unit.
//
// The unit itself does nothing of interest; its instantiations make the compiler
// build and optimise thousands of functions.  Compile it with optimisation:
//   cc1plus -quiet -O2 containers.cpp -o /dev/null
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace {

template <int N>
struct Record {
    std::string name;
    std::vector<std::pair<std::string, int>> fields;
    std::map<int, std::vector<std::string>> history;
    int key() const { return N * static_cast<int>(fields.size()) + static_cast<int>(history.size()); }
    bool operator<(const Record& other) const {
        return std::tie(name, fields) < std::tie(other.name, other.fields);
    }
};

template <int N>
int exercise(int seed) {
    std::vector<Record<N>> records;
    std::unordered_map<std::string, std::shared_ptr<Record<N>>> by_name;
    std::set<std::tuple<int, std::string>> order;
    for (int i = 0; i < seed; ++i) {
        Record<N> record;
        record.name = std::to_string(i * N);
        record.fields.emplace_back(record.name + "-field", i);
        record.history[i % 7].push_back(record.name);
        order.emplace(record.key(), record.name);
        by_name[record.name] = std::make_shared<Record<N>>(record);
        records.push_back(std::move(record));
    }
    std::stable_sort(records.begin(), records.end());
    records.erase(std::remove_if(records.begin(), records.end(),
                                 [](const Record<N>& r) { return r.key() % 3 == 0; }),
                  records.end());
    std::function<int(int, const Record<N>&)> add = [&](int sum, const Record<N>& r) {
        auto found = by_name.find(r.name);
        return sum + r.key() + (found == by_name.end() ? 0 : found->second->key());
    };
    return std::accumulate(records.begin(), records.end(), static_cast<int>(order.size()), add);
}

template <int... Ns>
int exercise_all(int seed, std::integer_sequence<int, Ns...>) {
    return (0 + ... + exercise<Ns + 1>(seed));
}

}  // namespace

int main(int argc, char**) { return exercise_all(argc * 100, std::make_integer_sequence<int, 1>{}) & 1; }
