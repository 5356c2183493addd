-- Every function that locks first and looks then needs a fresh snapshot for each statement.
create or replace function tidegate.require_read_committed() returns void language plpgsql as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'tidegate: this call needs READ COMMITTED, the transaction is %', upper(current_setting('transaction_isolation'))
      using errcode = '25001', hint = 'Call it in autocommit, or inside BEGIN ISOLATION LEVEL READ COMMITTED.';
  end if;
end $$;
