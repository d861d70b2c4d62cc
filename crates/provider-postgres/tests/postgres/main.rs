//! The tests of the store on Postgres. They are one program, so that the waits of some of them pass while others run.
//! The tests start in the order of their names, so those that wait the longest, of `abandoned_statements`, start first.

mod abandoned_statements;
mod closing;
mod common;
mod contract;
mod contract_behind_pooler;
mod damage;
mod hosts;
mod inbox_order;
mod lost_acks;
mod opening;
mod queues;
mod require_auth;
mod round_trips;
mod used_keys;
