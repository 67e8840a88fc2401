// profiletoml.cc - TOML to JSON by toml++; see toml.h.
//
// A table of TOML has no order and parse.c wants one: what describes, then kinds, then windows.
#include "toml.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <sstream>
#include <string>
#include <string_view>

#include <toml++/toml.h>

namespace {

constexpr std::array<std::string_view, 2> LAST = {"kinds", "windows"};

bool comes_last(std::string_view key) {
    return key == LAST[0] || key == LAST[1];
}

std::string json_of(const toml::table &profile) {
    std::ostringstream json;
    const char *comma = "";
    const auto add = [&](std::string_view key, const toml::node &value) {
        json << comma << toml::json_formatter{toml::value<std::string>{std::string(key)}} << ": "
             << toml::json_formatter{value, toml::format_flags::none};
        comma = ",\n";
    };
    json << "{";
    for (const auto &[key, value] : profile)
        if (!comes_last(key.str()))
            add(key.str(), value);
    for (std::string_view key : LAST)
        if (const toml::node *value = profile.get(key))
            add(key, *value);
    json << "}\n";
    return json.str();
}

char *copy_of(const std::string &text) {
    char *copy = static_cast<char *>(std::malloc(text.size()));
    if (copy != nullptr)
        std::memcpy(copy, text.data(), text.size());
    return copy;
}

} // namespace

extern "C" char *profiletoml_as_json(const char *text, size_t n_bytes, size_t *n_json,
                                     char *message, size_t message_bytes) {
    try {
        const std::string json = json_of(toml::parse(std::string_view(text, n_bytes)));
        *n_json = json.size();
        std::snprintf(message, message_bytes, "no memory for the profile");
        return copy_of(json);
    } catch (const toml::parse_error &error) {
        std::snprintf(message, message_bytes, "line %u: %s",
                      static_cast<unsigned>(error.source().begin.line),
                      std::string(error.description()).c_str());
    } catch (const std::exception &error) {
        std::snprintf(message, message_bytes, "not readable as TOML: %s", error.what());
    }
    return nullptr;
}

extern "C" void profiletoml_release(char *json) {
    std::free(json);
}
