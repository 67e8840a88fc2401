"""What load generators print, read back: samples as the tools printed them."""

from pathlib import Path

import pytest

from tuner.errors import ProgramError, SpecError
from tuner.service.output import LoadReport, check_reader, pgbench_latencies, read_load

WRK = """Running 1s test @ http://127.0.0.1:7002/
  1 threads and 2 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     3.62ms    2.63ms  15.97ms   69.35%
    Req/Sec   573.30    233.45     0.96k    60.00%
  Latency Distribution
     50%    3.20ms
     75%    4.90ms
     90%  791.00us
     99%    1.05s\x20
  571 requests in 1.00s, 229.74KB read
Requests/sec:    570.41
Transfer/sec:    229.50KB
"""
WRK_ERRORS = """Running 1s test @ http://127.0.0.1:7002/none
  919 requests in 1.01s, 466.86KB read
  Socket errors: connect 1, read 2, write 3, timeout 4
  Non-2xx or 3xx responses: 919
Requests/sec:    913.75
"""
WRK2 = """Running 1s test @ http://127.0.0.1:7002/
  Latency Distribution (HdrHistogram - Recorded Latency)
 50.000%    3.20ms
 99.000%    1.05s\x20
  Latency Distribution (HdrHistogram - Uncorrected Latency (measured \
without taking delayed starts into account))
 50.000%  790.00us
 99.000%    2.00ms
  571 requests in 1.00s, 229.74KB read
Requests/sec:    570.41
"""
AB = """Complete requests:      200
Failed requests:        0
Non-2xx responses:      3
Requests per second:    724.41 [#/sec] (mean)
  50%      0
  95%      6
  99%      8
 100%      9 (longest request)
"""
HEY = """
Summary:
  Requests/sec:	1086.8106

Latency distribution:
  10% in 0.0008 secs
  50% in 0.0014 secs
  95% in 0.0043 secs
  99% in 0.0071 secs

Status code distribution:
  [200]	98 responses
  [404]	2 responses

Error distribution:
  [5]	Get "http://127.0.0.1:7002/": dial tcp 127.0.0.1:7002: connect: connection refused
"""
OHA = """{"summary": {"successRate": 0.9, "requestsPerSec": 5000.5},
"latencyPercentiles": {"p50": 0.001, "p99": 0.0125, "p99.9": null},
"statusCodeDistribution": {"200": 90, "503": 10}, "errorDistribution": {"aborted": 2}}"""
OHA_AT_DEADLINE = """{"summary": {"successRate": 1.0, "requestsPerSec": 5000.5},
"latencyPercentiles": {"p50": 0.001, "p99": 0.0125},
"statusCodeDistribution": {"200": 90},
"errorDistribution": {"aborted due to deadline": 50, "connection refused": 2}}"""
OHA_TEXT = """Summary:
  Success rate:	100.00%
  Requests/sec:	5000.5000

Response time distribution:
  50.00% in 0.0010 secs
  99.00% in 0.0125 secs

Status code distribution:
  [200] 90 responses

Error distribution:
  [50] aborted due to deadline
  [2] connection refused
"""
AUTOCANNON = """{"errors": 3, "timeouts": 1, "non2xx": 2,
"requests": {"average": 1250.5, "total": 12505}, "latency": {"p50": 0, "p90": 3, "p99": 12}}"""
K6 = """
     http_req_duration..............: avg=1m3s min=0s med=102.5µs max=1h p(90)=1m2.5s p(95)=1h0m5s
     http_req_failed................: 0.00%  ✓ 40  ✗ 999960
     http_reqs......................: 1000000 9.985/s
     dropped_iterations.............: 7      0.7/s
"""
K6_NEW = """
    http_req_duration.......................: avg=3s med=2s p(90)=500ns p(95)=9ms
    http_req_failed.........................: 0.00%  1 out of 30000
    http_reqs...............................: 30000  9.985/s
"""
REDIS_CSV = (
    '"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms",'
    '"p99_latency_ms","max_latency_ms"\n'
    '"SET","20000.00","0.138","0.040","0.111","0.199","0.279","7.007"\n'
    '"GET","60000.00","0.168","0.024","0.103","0.299","0.199","12.903"\n'
)
REDIS_TEXT = """====== SET ======
  2000 requests completed in 0.15 seconds
  throughput summary: 20000.00 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        0.271     0.032     0.111     0.607     4.799     5.159
"""
PGBENCH = """number of transactions actually processed: 800/800
number of failed transactions: 2 (0.250%)
latency average = 9.986 ms
tps = 797.391203 (without initial connection time)
"""
SYSBENCH = """    transactions:                        2579   (642.13 per sec.)
    ignored errors:                      3      (0.75 per sec.)
    reconnects:                          1      (0.25 per sec.)
         99th percentile:                       31.37
"""


def test_ab_counts_other_lengths_as_failures_and_can_be_told_not_to():
    found = " (Connect: 0, Receive: 0, Length: 95, Exceptions: 0)\n"
    text = AB.replace("Failed requests:        0\n", f"Failed requests:        95\n  {found}")
    assert (read_load(text).failed, read_load(text).hint[-4:]) == (98, ": -l")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("wrk", WRK, LoadReport(570.41, 571, 0, {"p50": 3.2e6, "p90": 791e3, "p99": 1.05e9})),
        ("wrk", WRK2, LoadReport(570.41, 571, 0, {"p50": 3.2e6, "p99": 1.05e9})),
        ("wrk", WRK_ERRORS, LoadReport(913.75, 919, 929)),
        ("ab", AB, LoadReport(724.41, 200, 3, {"p50": 0.5e6, "p95": 6e6, "p99": 8e6})),
        ("hey", HEY, LoadReport(1086.8106, 98, 7, {"p50": 1.4e6, "p95": 4.3e6, "p99": 7.1e6})),
        ("oha", OHA, LoadReport(5000.5, 90, 12, {"p50": 1e6, "p99": 12.5e6})),
        ("oha", OHA_AT_DEADLINE, LoadReport(5000.5, 90, 2, {"p50": 1e6, "p99": 12.5e6})),
        ("oha", OHA_TEXT, LoadReport(5000.5, 90, 2, {"p50": 1e6, "p99": 12.5e6})),
        (
            "autocannon",
            AUTOCANNON,
            LoadReport(1250.5, 12505, 5, {"p50": 0.5e6, "p90": 3e6, "p99": 12e6}),
        ),
        ("k6", K6, LoadReport(9.985, 1e6, 47, {"p50": 102.5e3, "p90": 62.5e9, "p95": 3605e9})),
        ("k6", K6_NEW, LoadReport(9.985, 3e4, 1, {"p50": 2e9, "p90": 500.0, "p95": 9e6})),
        (
            "redis-benchmark",
            REDIS_CSV,
            LoadReport(30000.0, None, 0, {"p50": 0.107e6, "p95": 0.249e6, "p99": 0.239e6}),
        ),
        (
            "redis-benchmark",
            REDIS_TEXT,
            LoadReport(20000.0, 2000, 0, {"p50": 0.111e6, "p95": 0.607e6, "p99": 4.799e6}),
        ),
        ("pgbench", PGBENCH, LoadReport(797.391203, 800, 2, {"latency": 9.986e6})),
        ("sysbench", SYSBENCH, LoadReport(642.13, 2579, 1, {"p99": 31.37e6})),
    ],
)
def test_a_tool_is_read_by_name_and_by_what_it_prints(name: str, text: str, expected: LoadReport):
    for found in (read_load(text, name), read_load(text)):
        assert found.rate == pytest.approx(expected.rate)
        assert found.requests == expected.requests
        assert found.failed == expected.failed
        assert dict(found.latencies) == pytest.approx(dict(expected.latencies))


@pytest.mark.parametrize(
    ("unit", "ns"),
    [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("sec", 1e9), ("10 sec", 1e10), ("min", 60e9),
     ("10 min", 600e9), ("hr", 3600e9)],
)  # fmt: skip
def test_percentiles_of_oha_are_in_the_unit_of_its_slowest_request(unit: str, ns: float):
    found = read_load(OHA_TEXT.replace("secs", unit), "oha").latencies

    assert dict(found) == pytest.approx({"p50": 0.001 * ns, "p99": 0.0125 * ns})


def test_an_expression_names_what_it_finds():
    pattern = (
        r"(?P<requests>\d+) done in (?P<seconds>[\d.]+) s, p99 (?P<p99_us>\d+), bad (?P<failed>\d+)"
    )

    found = read_load("100 done in 2.0 s, p99 750, bad 1", pattern)

    assert found == LoadReport(50.0, 100.0, 1.0, {"p99": 750e3})


@pytest.mark.parametrize("number", ["1,234.5", "nan", "inf", "-5"])
def test_what_a_group_matches_has_to_be_a_number_from_0_on(number: str):
    with pytest.raises(ProgramError, match=f"the group rate matches '{number}', which is no"):
        read_load(f"{number} req/s", r"(?P<rate>\S+) req/s")


@pytest.mark.parametrize("reader", ["wkr", "(unclosed", r"(?P<speed>\d+)"])
def test_a_reader_that_says_nothing_is_refused(reader: str):
    with pytest.raises(SpecError, match=r"wkr|unclosed|speed"):
        check_reader(reader)


@pytest.mark.parametrize("name", ["p99", "p99_msec", "p98_ms", "errors"])
def test_a_group_that_would_not_count_is_refused(name: str):
    words = f"no group is named {name}: they are rate, .*, seconds and p50, .* with _ns, .*others"
    with pytest.raises(SpecError, match=words):
        check_reader(rf"(?P<rate>\d+) req/s, (?P<{name}>\d+)")
    assert check_reader(r"(?:a|b) (?P<rate>\d+) (req|s)")


def test_output_that_no_reader_knows_says_how_it_ends():
    with pytest.raises(ProgramError, match=r"(?s)--read.*all fine"):
        read_load("hello\nall fine\n")
    with pytest.raises(ProgramError, match="printed nothing"):
        read_load("", "wrk")


@pytest.mark.parametrize("reader", ["auto", "oha", "autocannon"])
def test_json_without_what_a_tool_prints_is_not_understood(reader: str):
    text = '{"latencyPercentiles": {}, "non2xx": 0, "summary": {"total": 1}}'
    with pytest.raises(ProgramError, match="--read"):
        read_load(text, reader)


def test_percentiles_of_pgbench_are_those_of_its_log(tmp_path: Path):
    log = tmp_path / "pgbench_log.1"
    log.write_text("".join(f"0 {n} {n} 0 1 2\n" for n in range(1, 101)))

    found = pgbench_latencies([log])

    assert found["p50"] == pytest.approx(50.5e3)


@pytest.mark.parametrize("word", ["skipped", "failed", "serialization"])
def test_transactions_without_a_latency_have_no_part_in_percentiles(tmp_path: Path, word: str):
    log = tmp_path / "pgbench_log.1"
    log.write_text(f"0 1 750 0 1 2 30\n0 2 {word} 0 1 2 99000\n")

    assert pgbench_latencies([log])["p999"] == 750e3


def test_sums_over_an_interval_have_no_percentiles(tmp_path: Path):
    log = tmp_path / "pgbench_log.1"
    log.write_text("1764150000 1988 140608 9991404 60 194 0 0 0\n")

    assert pgbench_latencies([log]) == pgbench_latencies([]) == {}
