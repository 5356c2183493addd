"""Capacity of one process: who may be taken in, who may run, and who waits. No database and no clock.

A message passes two stages. **Intake** (`tidegate.flow.intakes`): the pools of worker and channel, counted from claim
to outcome, and asked before a claim is sent, so that a claim brings only what fits. **Execution**
(`tidegate.flow.executions`): custom policies one after the other, then the pools of router and actor, all or none
(`tidegate.flow.reservations`). `tidegate.flow.backpressure` decides what intake does while execution waits, and
`tidegate.flow.propagation` how far the limits of actors bound intake beforehand. `tidegate.flow.flows.Flow` puts them
together for one worker; everything is used on that worker's event loop.
"""
