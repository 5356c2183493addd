-- New functions may be called by everybody unless this is said after each change of them. The hash stays free: an index of jobs computes it for
-- whoever inserts, and a session whose first plan may not look into it would find that index no more.
revoke execute on all routines in schema tidegate from public;
grant execute on function tidegate.lane_of to public
