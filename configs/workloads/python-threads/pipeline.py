"""Workload "python-threads": an interpreter whose threads hand objects to each other.

Four producers parse generated JSON documents and put them into a bounded queue;
four consumers take them, keep a summary of some, and so free what another thread
allocated.  Run it with PYTHONMALLOC=malloc: Python then asks the C library's
allocator for every object, as extension modules and other runtimes do.
The output does not depend on how the threads take turns.

Usage: PYTHONMALLOC=malloc python3 pipeline.py [documents per producer]
"""

import json
import queue
import random
import sys
import threading

N_THREADS = 4
QUEUE_LENGTH = 32


def make_document(rng: random.Random) -> str:
    """Return JSON text of one order with a varying number of lines."""
    lines = [
        {
            "item": f"item-{rng.randrange(5000):05d}",
            "note": "x" * rng.randrange(4, 200),
            "prices": [round(rng.random() * 100, 2) for _ in range(rng.randrange(1, 8))],
        }
        for _ in range(rng.randrange(2, 30))
    ]
    return json.dumps({"customer": f"customer-{rng.randrange(900)}", "lines": lines})


def produce(number: int, n_documents: int, documents: queue.Queue) -> None:
    """Parse documents; a few large ones among many small ones."""
    rng = random.Random(number)
    for index in range(n_documents):
        count = 12 if index % 25 == 0 else 1
        documents.put([json.loads(make_document(rng)) for _ in range(count)])
    documents.put(None)


def consume(documents: queue.Queue, totals: list) -> None:
    """Add up prices, and keep the notes of every eighth batch until the end."""
    kept = []
    total = n_lines = 0
    while (batch := documents.get()) is not None:
        for document in batch:
            for line in document["lines"]:
                total += round(sum(line["prices"]) * 100)
                n_lines += 1
        if n_lines % 8 == 0:
            kept.append([line["note"] for document in batch for line in document["lines"]])
    totals.append((n_lines, total))


def main() -> None:
    """Run producers and consumers, and print what does not depend on their order."""
    n_documents = int(sys.argv[1]) if len(sys.argv) > 1 else 120
    documents: queue.Queue = queue.Queue(QUEUE_LENGTH)
    totals: list = []
    threads = [
        threading.Thread(target=produce, args=(number, n_documents, documents))
        for number in range(N_THREADS)
    ]
    threads += [threading.Thread(target=consume, args=(documents, totals)) for _ in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(n for n, _ in totals), "lines,", sum(total for _, total in totals), "cents")


main()
