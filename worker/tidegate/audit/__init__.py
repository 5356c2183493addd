"""A judge for test and demo databases: triggers write down what happened, pure checkers decide whether it was allowed.

::

    await install(engine)                  # after the migrations, before the first worker
    ...                                    # whatever is to be judged
    verdict = judge(await read_history(engine))
    assert not verdict.violations, verdict

``events.sql`` is the recorder; never install it in production, it costs about as much as the claim itself. Why its
order of events may be trusted under READ COMMITTED, where commits overtake each other:

* Starts are written by a constraint trigger at the end of the transaction, *after taking the key's row lock*. A
  correct claim holds that lock already; a broken one that does not is made to queue up here, so that it cannot hide
  behind concurrency. From that point to the commit nobody else can start a job of the key or change its policy, so
  the sequence numbers of a key's starts and policy changes are their commit order, and the number of running jobs
  that the trigger counts is the true one: every earlier start is committed and visible, finishes still under way
  count as running, as they must.
* Ends do not take the key's lock, because a real finish does not either. They are written at the end of their own
  transaction, before it commits. A start that used the freed capacity saw that commit, so it has the higher number.
  Replaying by number therefore never counts more jobs than really ran: no false alarm. It can miss a start in the
  microseconds between an end's number and its commit, which the count in the start's own event does not.
* A job's events are in order because each transition locks the job's row until its commit.

Time has a clock of its own. Every event holds ``clock_timestamp()`` at its writing, and a start also the beginning of
its transaction. The instant that the claim chose is judged exactly against every sliding window, and it must be
honest: later than the beginning of its transaction, and not before the last event of its key that another transaction
wrote under the key's lock. An instant read before that lock was granted fails one of the two.

The invariants (reliability.md): I1 lost jobs, I2 false rescues, I3 outcomes under a foreign token and jobs running
twice, I4 above ``max_running``, I5 drift of the lanes' counts, I6 above ``max_starts`` in any window, I7 started
before ``run_at``, after expiry, from a suspended queue or by a worker that may not claim, I8 attempts spent by
infrastructure. A history that contradicts the tables it was written from is reported too (``AUDIT``): then nothing is
proven.

It does not judge the order of claims, nor how long a free job waited. An outcome under the right token that a process
sends without having run the job is seen where actors record their runs (``record_run``), and not by triggers alone.
"""

from tidegate.audit.checkers import judge
from tidegate.audit.histories import Drift, Event, EventKind, History, JobRow, Run
from tidegate.audit.recorder import install, read_history
from tidegate.audit.verdicts import Invariant, Verdict, Violation

__all__ = [
    "Drift",
    "Event",
    "EventKind",
    "History",
    "Invariant",
    "JobRow",
    "Run",
    "Verdict",
    "Violation",
    "install",
    "judge",
    "read_history",
]
