-- Locks: the queue, waits for a claim. Cost: at most `most` mail rows. For maintenance and tests: folds what no claim has folded.
create or replace function tidegate.fold(queue text, most int default 10000) returns int language plpgsql security definer
set search_path = tidegate, pg_temp set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  p_queue text := fold.queue;
begin
  perform require_read_committed();
  perform ensure_queue(p_queue) where not exists (select from queues where name = p_queue);
  perform from queues where name = p_queue for no key update;
  return fold_mail(p_queue, most);
end $$;
