"""Try to break noisyor: kills, full disks, concurrent runs, many processes, hostile files.

    python benchmarks/faults.py --kills 1000 --fuzz 5000 --minutes 30

Prints a table at the end; the exit code is 1 if anything was lost. See ``docs/reliability.md``.
"""

from fault_campaign.__main__ import main

if __name__ == "__main__":
    raise SystemExit(main())
