//! The tests of the store on Postgres. They are one program, so that the waits of some of them pass while others run.

mod closing;
mod common;
mod contract;
mod contract_behind_pooler;
mod damage;
mod hosts;
mod inbox_order;
mod late_statements;
mod lost_acks;
mod opening;
mod queues;
mod require_auth;
mod round_trips;
mod used_keys;
