-- A transaction with a record of its own in the log, committed synchronously: it flushes every commit before it.
select pg_logical_emit_message(true, 'tidegate', '')
