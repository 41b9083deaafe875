"""Try to break noisyor: kills, full disks, rivals, crowded processes and hostile files.

    python benchmarks/faults.py --kills 1000 --fuzz 5000 --minutes 30

One table at the end; the exit code is 1 if anything was lost. See ``docs/reliability.md``.
"""

from fault_campaign.__main__ import main

if __name__ == "__main__":
    raise SystemExit(main())
