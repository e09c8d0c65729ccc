// Alerts of the collector: rules, expressions and states, on samples and clocks of the test.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <unistd.h>

extern "C" {
#include "udmon/collector/alert/alerts.h"
#include "udmon/collector/alert/expr.h"
#include "udmon/collector/alert/rules.h"
#include "udmon/collector/alert/show.h"
#include "udmon/collector/alert/template.h"
#include "udmon/include/udmon.h"
}

namespace
{

std::string logged;

void log_line(void *, enum udmon_log_level, const char *text)
{
    logged += std::string(text) + "\n";
}

struct RulesFile {
    char path[64] = "/tmp/openglex-rules-XXXXXX";

    explicit RulesFile(const std::string &text)
    {
        close(mkstemp(path));
        write(text);
        logged.clear();
        udmon_set_log(log_line, nullptr);
    }
    ~RulesFile()
    {
        udmon_set_log(nullptr, nullptr);
        unlink(path);
    }
    void write(const std::string &text) const
    {
        std::ofstream(path) << text;
    }
};

// A file with one rule, whose lines are from line 4 on.
std::string one_rule(const std::string &lines)
{
    return "groups:\n  - name: g\n    rules:\n" + lines;
}

// ---- expressions

bool holds(const std::string &text, const std::string &labels, double value)
{
    struct labels set = {};
    struct expr expr;
    bool result;

    EXPECT_EQ(nullptr, expr_parse(text.c_str(), &expr)) << text;
    EXPECT_NE(nullptr, labels_parse(&set, labels.c_str()));
    result = expr_holds(&expr, &set, value);
    labels_free(&set);
    expr_free(&expr);
    return result;
}

TEST(AlertExpr, Comparisons)
{
    EXPECT_TRUE(holds("up == 0", "", 0));
    EXPECT_FALSE(holds("up==0", "", 1));
    EXPECT_TRUE(holds("up != 0", "", 1));
    EXPECT_TRUE(holds(" x\n > 5 ", "", 5.5));
    EXPECT_FALSE(holds("x > 5", "", 5));
    EXPECT_TRUE(holds("x >= 5", "", 5));
    EXPECT_TRUE(holds("x < -1.5e3", "", -1501));
    EXPECT_TRUE(holds("x <= +Inf", "", INFINITY));
    EXPECT_FALSE(holds("x == NaN", "", NAN));
    EXPECT_TRUE(holds("x != 1", "", NAN)) << "as in PromQL";
}

TEST(AlertExpr, Labels)
{
    EXPECT_TRUE(holds("x{a=\"1\"} > 0", "{a=\"1\",b=\"2\"}", 1));
    EXPECT_FALSE(holds("x{a=\"1\"} > 0", "{a=\"2\"}", 1));
    EXPECT_FALSE(holds("x{a=\"1\"} > 0", "", 1));
    EXPECT_TRUE(holds("x{a!=\"1\",} > 0", "", 1)) << "a missing label is empty";
    EXPECT_FALSE(holds("x{ a != '1' , b = \"2\" } > 0", "{a=\"1\",b=\"2\"}", 1));
    EXPECT_TRUE(holds("x{a=\"q\\\"\\\\\\n\"} > 0", "{a=\"q\\\"\\\\\\n\"}", 1));
    EXPECT_TRUE(holds("a:b{} > 0", "", 1));
}

TEST(AlertExpr, RefusesTheRestOfPromql)
{
    struct expr expr;

    for (const char *text : {"",
                             "x",
                             "x >",
                             "5 < x",
                             "x > y",
                             "x > 5 and y > 3",
                             "rate(x[5m]) > 1",
                             "x[5m] > 1",
                             "sum by (a) (x) > 1",
                             "x{a=~\"b.*\"} > 1",
                             "x{a!~\"b\"} > 1",
                             "x offset 5m > 1",
                             "x > bool 1",
                             "-x > 1",
                             "(x > 1)",
                             "x + 1 > 2",
                             "{__name__=\"x\"} > 1",
                             "x{a=\"b} > 1",
                             "x{a} > 1",
                             "x > 0x1p3",
                             "x > 1 2",
                             "x > 1e",
                             "x > nan(1)",
                             "x{a=\"\"} > 1",
                             "1x > 1",
                             "x{a=\"\\d\"} > 1",
                             "x = 1",
                             "x > infinity"}) {
        EXPECT_NE(nullptr, expr_parse(text, &expr)) << text;
    }
}

TEST(AlertExpr, Templates)
{
    struct labels labels = {};
    char *text;

    ASSERT_TRUE(labels_set(&labels, "node", "n1"));
    ASSERT_EQ(nullptr, template_check("{{ $labels.node }} has {{$value}} of {{ $labels.none }}."));
    text =
        template_expand("{{ $labels.node }} has {{$value}} of {{ $labels.none }}.", &labels, 0.1);
    EXPECT_STREQ("n1 has 0.1 of .", text);
    free(text);
    labels_free(&labels);
    for (const char *wrong : {"{{ $value | humanize }}", "{{", "{{ .Labels }}", "{{ $labels. }}",
                              "{{ if $value }}", "{{ $valued }}"}) {
        EXPECT_NE(nullptr, template_check(wrong)) << wrong;
    }
}

// ---- rules

TEST(AlertRules, Durations)
{
    uint64_t ms;

    for (const auto &[text, expected] : std::initializer_list<std::pair<const char *, uint64_t>>{
             {"0", 0}, {"5m", 300000}, {"1h30m", 5400000}, {"1d", 86400000}, {"1s500ms", 1500}}) {
        EXPECT_TRUE(rules_duration(text, &ms)) << text;
        EXPECT_EQ(expected, ms) << text;
    }
    for (const char *wrong :
         {"", "5", "m", "5 m", "5x", "1m1h", "1m2m", "-5m", "1.5h", "999999999y", "292y53w"}) {
        EXPECT_FALSE(rules_duration(wrong, &ms)) << wrong;
    }
}

TEST(AlertRules, Fields)
{
    RulesFile file(
        "groups:\n- name: one\n  interval: 5s\n  rules:\n  - alert: A\n    expr: x > 1\n"
        "    for: 2m\n    keep_firing_for: 3m\n    labels: {severity: page}\n"
        "    annotations:\n      summary: >-\n        {{ $labels.node }}\n        is bad\n"
        "- name: two\n  rules:\n  - {alert: B, expr: 'y{a=\"b\"} == 0'}\n");
    struct rules rules;

    ASSERT_EQ(0, rules_load(file.path, &rules)) << logged;
    ASSERT_EQ(2u, rules.count);
    EXPECT_STREQ("one", rules.list[0].group);
    EXPECT_STREQ("A", rules.list[0].name);
    EXPECT_EQ(5, rules.list[0].line);
    EXPECT_EQ(5000u, rules.list[0].interval_ms);
    EXPECT_EQ(120000u, rules.list[0].for_ms);
    EXPECT_EQ(180000u, rules.list[0].keep_ms);
    EXPECT_STREQ("page", labels_get(&rules.list[0].labels, "severity"));
    EXPECT_STREQ("{{ $labels.node }} is bad", labels_get(&rules.list[0].annotations, "summary"));
    EXPECT_STREQ("two", rules.list[1].group);
    EXPECT_EQ(0u, rules.list[1].for_ms);
    EXPECT_STREQ("b", labels_get(&rules.list[1].expr.equal, "a"));
    rules_free(&rules);
}

// Each mistake is named with its line.
TEST(AlertRules, WrongRulesAreNamedWithTheirLine)
{
    const struct {
        const char *text;
        int line;
        const char *what;
    } wrong[] = {
        {"groups: [\n", 2, "YAML"},
        {"group: []\n", 1, "field 'group'"},
        {"groups: 5\n", 1, "list of groups"},
        {"groups:\n- rules: []\n", 2, "needs a field 'name'"},
        {"groups:\n- name: a\n  rules: {}\n", 3, "list of rules"},
        {"groups:\n- name: a\n  limit: 3\n", 3, "field 'limit'"},
        {"groups:\n- name: a\n  interval: 5\n", 3, "no time"},
        {"groups:\n- name: a\n  name: b\n", 3, "twice"},
        {"groups:\n- name: a\n  rules:\n  - {alert: A, expr: x > 1}\n- name: a\n", 5, "already"},
        {"groups: []\n---\ngroups: []\n", 3, "second document"},
    };
    const struct {
        const char *lines;
        int line;
        const char *what;
    } rule[] = {
        {"    - alert: A\n", 4, "needs a field 'expr'"},
        {"    - expr: x > 1\n", 4, "needs a field 'alert'"},
        {"    - alert: A\n      expr: rate(x[5m]) > 1\n", 5, "function or an aggregation"},
        {"    - alert: A\n      expr: x{a=~\"b\"} > 1\n", 5, "regular expression"},
        {"    - alert: A\n      expr: x[5m] > 1\n", 5, "range of time"},
        {"    - alert: A\n      expr: x > 1 and y > 2\n", 5, "more follows"},
        {"    - alert: A\n      expr: |\n        x\n        > y\n", 5, "Prometheus"},
        {"    - alert: A\n      expr: x > 1\n      for: soon\n", 6, "'soon' is no time"},
        {"    - alert: A\n      expr: x > 1\n      labels: {a-b: c}\n", 6, "'a-b' is no name"},
        {"    - alert: A\n      expr: x > 1\n      annotations:\n        s: '{{ $value | f }}'\n",
         7, "filled in"},
        {"    - record: a\n      expr: x > 1\n", 4, "rules that record are for Prometheus"},
        {"    - alert: ''\n      expr: x > 1\n", 4, "not be empty"},
        {"    - A\n", 4, "should have fields"},
    };

    for (const auto &each : wrong) {
        RulesFile file(each.text);
        struct rules rules;

        EXPECT_EQ(-EINVAL, rules_load(file.path, &rules)) << each.text;
        EXPECT_NE(std::string::npos,
                  logged.find(std::string(file.path) + ":" + std::to_string(each.line) + ": "))
            << each.text << logged;
        EXPECT_NE(std::string::npos, logged.find(each.what)) << each.text << logged;
    }
    for (const auto &each : rule) {
        RulesFile file(one_rule(each.lines));
        struct rules rules;

        EXPECT_EQ(-EINVAL, rules_load(file.path, &rules)) << each.lines;
        EXPECT_NE(std::string::npos,
                  logged.find(std::string(file.path) + ":" + std::to_string(each.line) + ": "))
            << each.lines << logged;
        EXPECT_NE(std::string::npos, logged.find(each.what)) << each.lines << logged;
    }
}

TEST(AlertRules, AllWrongRulesOfAFile)
{
    RulesFile file(one_rule("    - {alert: A, expr: rate(x) > 1}\n    - {alert: B, expr: x > 1}\n"
                            "    - {alert: C, expr: sum(x) > 1}\n"));
    struct rules rules;

    EXPECT_EQ(-EINVAL, rules_load(file.path, &rules));
    EXPECT_NE(std::string::npos, logged.find(":4: ")) << logged;
    EXPECT_EQ(std::string::npos, logged.find(":5: ")) << logged;
    EXPECT_NE(std::string::npos, logged.find(":6: ")) << logged;
}

TEST(AlertRules, EmptyFile)
{
    RulesFile file("# no rules yet\n");
    struct rules rules;

    EXPECT_EQ(0, rules_load(file.path, &rules)) << logged;
    EXPECT_EQ(0u, rules.count);
}

// ---- states

constexpr uint64_t SECOND = 1000000000;

struct AlertTest : testing::Test {
    RulesFile file{one_rule("    - alert: Bad\n      expr: x > 5\n      for: 30s\n"
                            "      keep_firing_for: 20s\n      labels: {severity: page}\n"
                            "      annotations: {summary: '{{ $labels.node }}: {{ $value }}'}\n")};
    struct alerts alerts;
    uint64_t now = 1000 * SECOND;

    void SetUp() override
    {
        const struct alerts_options options = {file.path, nullptr, nullptr};

        ASSERT_EQ(0, alerts_init(&alerts, &options)) << logged;
    }
    void TearDown() override
    {
        alerts_destroy(&alerts);
    }
    // Evaluates once with x of node n, an interval after the last time.
    void sample(const std::string &value)
    {
        now += 15 * SECOND;
        evaluate("# TYPE x gauge\nx{node=\"n\"} " + value + "\ny{node=\"n\"} 9\n");
    }
    void evaluate(const std::string &text)
    {
        EXPECT_EQ(0u, alerts_wait_ns(&alerts, now));
        alerts_evaluate(&alerts, text.c_str(), now, now / 1000000);
        EXPECT_EQ(15 * SECOND, alerts_wait_ns(&alerts, now));
    }
    std::string states() const
    {
        std::string all;
        struct json_object *json = show_json(const_cast<struct alerts *>(&alerts), 10, 0), *list,
                           *state;

        json_object_object_get_ex(json, "alerts", &list);
        for (size_t i = 0; i < json_object_array_length(list); ++i) {
            json_object_object_get_ex(json_object_array_get_idx(list, i), "state", &state);
            all += (i > 0 ? " " : "") + std::string(json_object_get_string(state));
        }
        json_object_put(json);
        return all;
    }
    std::string metrics()
    {
        char *text = nullptr;
        size_t length;
        FILE *out = open_memstream(&text, &length);
        std::string all;

        show_metrics(&alerts, false, out);
        fclose(out);
        all = text;
        free(text);
        return all;
    }
    // The message of a channel, "" if there is none.
    std::string news(int channel, uint64_t again_ns = 0, bool told = true)
    {
        struct show_message news;
        std::string body;

        if (!show_news(&alerts, channel, channel == ALERTS_COMMAND, again_ns, now, now / 1000000,
                       &news)) {
            return "";
        }
        body = news.body;
        free(news.body);
        if (told) {
            show_told(&alerts, channel, news.batch, now);
        }
        return body;
    }
};

TEST_F(AlertTest, PendingFiringResolved)
{
    sample("5");
    EXPECT_EQ("", states());
    sample("6");
    EXPECT_EQ("pending", states());
    EXPECT_NE(std::string::npos, metrics().find("udmon_alerts{alertstate=\"pending\",alertname="
                                                "\"Bad\",node=\"n\",severity=\"page\"} 1\n"))
        << metrics();
    sample("7");
    EXPECT_EQ("pending", states());
    sample("8");
    EXPECT_EQ("firing", states());
    EXPECT_NE(std::string::npos, metrics().find("alertstate=\"firing\"")) << metrics();
    sample("1");
    EXPECT_EQ("firing", states()) << "keep_firing_for";
    sample("1");
    EXPECT_EQ("resolved", states());
    EXPECT_EQ(std::string::npos, metrics().find("alertstate")) << metrics();
    now += ALERTS_RESOLVED_NS;
    sample("1");
    EXPECT_EQ("", states());
}

TEST_F(AlertTest, PendingEnds)
{
    sample("6");
    sample("6");
    sample("NaN");
    EXPECT_EQ("", states());
    sample("6");
    sample("6");
    EXPECT_EQ("pending", states()) << "the time counts anew";
}

TEST_F(AlertTest, KeptAlertIsNotResolvedBetween)
{
    sample("6");
    sample("6");
    sample("6");
    sample("1");
    sample("6");
    sample("1");
    EXPECT_EQ("firing", states());
}

TEST_F(AlertTest, ResolvedAlertFiresAgain)
{
    for (const char *value : {"6", "6", "6", "1", "1"}) {
        sample(value);
    }
    EXPECT_EQ("resolved", states());
    sample("6");
    EXPECT_EQ("pending", states());
    sample("1");
    EXPECT_EQ("resolved", states());
    for (const char *value : {"6", "6", "6"}) {
        sample(value);
    }
    EXPECT_EQ("firing", states());
}

TEST_F(AlertTest, SeriesThatIsGoneResolves)
{
    sample("6");
    sample("6");
    sample("6");
    for (int i = 0; i < 2; ++i) {
        now += 15 * SECOND;
        evaluate("");
    }
    EXPECT_EQ("resolved", states());
}

TEST_F(AlertTest, EachSeriesHasItsAlert)
{
    now += 15 * SECOND;
    evaluate("x{node=\"a\"} 6\nx{node=\"b\"} 1\nx{node=\"c\",d=\"\\\"\"} 7\nx 8\n");
    EXPECT_EQ("pending pending pending", states());
}

TEST_F(AlertTest, Webhook)
{
    std::string body;

    sample("6");
    EXPECT_EQ("", news(ALERTS_WEBHOOK)) << "pending alerts are not sent";
    sample("6");
    sample("7.5");
    body = news(ALERTS_WEBHOOK, 60 * SECOND, false);
    EXPECT_EQ("[{\"labels\":{\"alertname\":\"Bad\",\"node\":\"n\",\"severity\":\"page\"},"
              "\"annotations\":{\"summary\":\"n: 7.5\"},\"startsAt\":\"1970-01-01T00:16:55.000Z\","
              "\"endsAt\":\"1970-01-01T00:21:25.000Z\"}]",
              body);
    EXPECT_EQ(body, news(ALERTS_WEBHOOK, 60 * SECOND)) << "it was not delivered";
    EXPECT_EQ("", news(ALERTS_WEBHOOK, 60 * SECOND));
    now += 60 * SECOND;
    EXPECT_NE("", news(ALERTS_WEBHOOK, 60 * SECOND)) << "it fires on";
    sample("1");
    sample("1");
    EXPECT_NE(std::string::npos, news(ALERTS_WEBHOOK, 60 * SECOND).find("\"endsAt\""));
    EXPECT_EQ("", news(ALERTS_WEBHOOK, 60 * SECOND)) << "the end is told once";
}

TEST_F(AlertTest, Command)
{
    for (const char *value : {"6", "6", "6"}) {
        sample(value);
    }
    EXPECT_EQ("FIRING: Bad node=n severity=page\n    since 1970-01-01T00:16:55.000Z, value 6\n"
              "    summary: n: 6\n",
              news(ALERTS_COMMAND));
    now += 3600 * SECOND;
    EXPECT_EQ("", news(ALERTS_COMMAND)) << "only changes";
    sample("1");
    EXPECT_EQ(0u, news(ALERTS_COMMAND).find("RESOLVED: Bad"));
}

TEST_F(AlertTest, EndOfAnAlertThatWasNotTold)
{
    for (const char *value : {"6", "6", "6", "1", "1"}) {
        sample(value);
    }
    EXPECT_EQ("resolved", states());
    EXPECT_EQ("", news(ALERTS_WEBHOOK));
}

TEST_F(AlertTest, EndWaitsForAReceiverThatIsAway)
{
    for (const char *value : {"6", "6", "6"}) {
        sample(value);
    }
    EXPECT_NE("", news(ALERTS_COMMAND));
    sample("1");
    sample("1");
    for (int i = 0; i < 3; ++i) {
        now += ALERTS_RESOLVED_NS;
        sample("1");
    }
    EXPECT_EQ(0u, news(ALERTS_COMMAND).find("RESOLVED: Bad"));
    sample("1");
    EXPECT_EQ("", states());
    EXPECT_EQ(0u, alerts.discarded);
}

// Series of nodes 0 to count - 1
std::string series(int count, const std::string &value)
{
    std::string text;

    for (int i = 0; i < count; ++i) {
        text += "x{node=\"" + std::to_string(i) + "\"} " + value + "\n";
    }
    return text;
}

// Ends that wait for a receiver leave room for new alerts.
TEST_F(AlertTest, EndsThatWaitAreBounded)
{
    const int count = ALERTS_ENDS_MAX + 5;

    for (const char *value : {"6", "6", "6", "1", "1"}) {
        now += 15 * SECOND;
        evaluate(series(count, value));
        while ((*value == '6') && !news(ALERTS_COMMAND).empty()) {
        }
    }
    now += ALERTS_RESOLVED_NS;
    sample("1");
    EXPECT_EQ(5u, alerts.discarded) << "ends beyond the bound";
    EXPECT_EQ(size_t(ALERTS_ENDS_MAX), alerts.count);
}

// /metrics and the page wait for the lock.
TEST_F(AlertTest, SamplesAreReadWithoutTheLock)
{
    const std::string text = series(ALERTS_MAX + 1, "6");
    static std::atomic<bool> read;

    read = false;
    udmon_set_log([](void *, enum udmon_log_level, const char *) { read = true; }, nullptr);
    now += 15 * SECOND;
    pthread_mutex_lock(&alerts.lock);
    std::thread evaluating([&] { alerts_evaluate(&alerts, text.c_str(), now, now / 1000000); });
    for (int i = 0; (i < 1000) && !read; ++i) { // the log says that there are too many alerts
        usleep(10000);
    }
    EXPECT_TRUE(read);
    EXPECT_TRUE(LIST_EMPTY(&alerts.list)) << "readers see nothing yet";
    pthread_mutex_unlock(&alerts.lock);
    evaluating.join();
    EXPECT_EQ(size_t(ALERTS_MAX), alerts.count);
}

TEST_F(AlertTest, PageGetsSomeAlertsAndTheCounts)
{
    struct json_object *json, *list, *count;

    now += 15 * SECOND;
    evaluate(series(20, "6"));
    json = show_json(&alerts, 3, 0);
    ASSERT_TRUE(json_object_object_get_ex(json, "alerts", &list));
    EXPECT_EQ(3u, json_object_array_length(list));
    ASSERT_TRUE(json_object_object_get_ex(json, "pending", &count));
    EXPECT_EQ(20, json_object_get_int(count));
    json_object_put(json);
}

} // namespace
