// The other input of the compilers in answers.py: variants, streams and threads, which the unit of
// containers that they are tuned on does not have.
#include <fstream>
#include <future>
#include <iostream>
#include <list>
#include <mutex>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

namespace {

using Field = std::variant<long, double, std::string>;

struct Line {
    std::list<Field> fields;
    std::string text;
};

Line parse(const std::string &text) {
    Line line{{}, text};
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        std::istringstream number(word);
        long whole = 0;
        if (number >> whole) {
            line.fields.emplace_back(whole);
        } else {
            line.fields.emplace_back(word);
        }
    }
    return line;
}

class Totals {
  public:
    void add(const Line &line) {
        const std::lock_guard<std::mutex> guard(mutex_);
        for (const Field &field : line.fields) {
            total_ += std::visit([](const auto &value) { return size_of(value); }, field);
        }
    }

    double total() const {
        return total_;
    }

  private:
    static double size_of(const std::string &text) {
        return static_cast<double>(text.size());
    }
    static double size_of(double number) {
        return number;
    }
    static double size_of(long number) {
        return static_cast<double>(number);
    }

    std::mutex mutex_;
    double total_ = 0.0;
};

} // namespace

int main(int argc, char **argv) {
    Totals totals;
    std::vector<std::future<void>> files;
    for (int i = 1; i < argc; ++i) {
        files.push_back(std::async(std::launch::async, [&totals, name = std::string(argv[i])] {
            std::ifstream file(name);
            for (std::string text; std::getline(file, text);) {
                totals.add(parse(text));
            }
        }));
    }
    for (auto &file : files) {
        file.get();
    }
    std::cout << totals.total() << '\n';
    return 0;
}
