//! The list of all checks, as macros that expand to tests.

/// Expands to one `#[tokio::test]` for each check, over stores of a [`Fixture`].
#[macro_export]
macro_rules! suite {
    ($fixture:ty) => {
        $crate::behaviour!($fixture);

        mod as_kept {
            use super::*;

            $crate::as_kept!($fixture);
        }
    };
}

/// The checks of [`suite!`] that hold even if texts are changed on their way into the store.
#[macro_export]
macro_rules! behaviour {
    ($fixture:ty) => {
        $crate::tests! { $fixture;
            acquire {
                takes_the_highest_priority_first_and_then_the_longest_due,
                takes_no_more_than_the_limit_and_says_that_more_is_due,
                takes_only_instances_whose_name_and_version_are_registered,
                takes_nothing_before_its_time_and_says_when_that_is,
                takes_nothing_that_is_owned_suspended_or_ended,
                gives_each_instance_to_one_of_many_workers,
                raises_the_epoch_at_every_acquisition,
                brings_the_first_page_of_history_and_every_message,
                gives_nothing_to_a_worker_that_is_not_registered,
                leaves_a_backlog_of_unregistered_orchestrations_due,
            }
            activity_sessions {
                give_all_tasks_of_a_session_to_one_worker,
                hold_no_more_sessions_than_the_limit,
                bind_no_session_that_would_have_to_wait,
                move_when_they_were_idle,
                make_room_when_they_were_idle,
                move_when_their_worker_is_gone,
                keep_a_task_that_their_worker_gives_back,
                are_not_bound_to_a_stranger,
                are_never_split_by_requests_at_once,
                do_not_hide_a_task_without_a_session,
            }
            backlog {
                a_full_one_takes_no_more,
                a_consumed_message_makes_room,
                a_suspension_and_another_owner_change_nothing,
                an_end_drops_it,
                is_read_in_pages,
                is_searched_by_mailbox,
                comes_with_its_instance_in_a_page,
            }
            batches {
                outcomes_come_in_the_order_of_the_writes,
                an_empty_batch_is_answered,
                an_answer_may_hand_over_the_next_batch,
                answers_never_come_within_the_call,
                answers_come_in_the_order_of_the_batches,
                an_answer_that_panics_stops_nothing,
                a_refused_batch_leaves_nothing_and_harms_no_other,
            }
            cancelling {
                ends_a_suspended_instance,
                ends_one_that_never_ran,
                withdraws_its_tasks,
                waits_for_any_other,
                is_asked_for_by_no_other_message,
            }
            check {
                finds_nothing_where_nothing_is_wrong,
                finds_nothing_in_an_empty_store,
                finds_nothing_after_housekeeping,
            }
            claimed_slots {
                get_the_slots_that_are_free,
                share_the_slots_in_a_batch,
                overtake_nothing_that_waits,
                count_for_the_rate_and_for_the_worker,
                wait_if_their_worker_is_not_registered,
                bring_their_first_turns_with_a_slot,
                are_refused_as_others_are,
            }
            continue_as_new {
                the_worker_keeps_the_instance,
                a_worker_can_give_it_back,
                unread_messages_and_the_custom_status_stay,
                former_executions_can_be_read,
                a_first_turn_can_continue,
                a_suspension_after_it_is_resumed_as_running,
                is_refused_when_its_events_do_not_fit,
            }
            deletion {
                takes_away_all_of_an_instance,
                leaves_an_instance_that_has_not_ended,
                sweeps_events_in_steps,
                leaves_its_sweep_to_any_handle,
                prunes_the_longest_ended_first,
                prunes_the_instances_that_its_filter_matches,
                prunes_the_instances_with_some_ids,
                prunes_the_instances_of_users_alone,
                prunes_in_pages,
                of_an_instance_leaves_no_count_of_it,
                prunes_former_executions,
                prunes_executions_in_steps,
                prunes_executions_of_some_ids,
            }
            due {
                are_told_in_the_order_of_acquisitions,
                come_with_all_of_their_messages,
                come_without_messages_that_exceed_the_limit,
                are_due_from_their_time_on,
                say_if_an_acquisition_may_give_others,
                see_the_queues_as_an_acquisition_does,
                are_those_of_registered_orchestrations,
                are_left_to_the_worker_that_released_them,
                are_left_to_no_other_worker,
                are_left_without_those_behind_them,
            }
            executions {
                come_newest_first_with_their_ends,
                come_in_pages,
                that_are_pruned_are_passed_over,
                of_an_unknown_instance_are_none,
            }
            fences {
                keep_off_another_owner,
                keep_off_another_epoch,
                keep_off_another_next_event_id,
                keep_off_another_execution,
                keep_off_a_turn_written_twice,
                leave_the_others_of_the_batch,
            }
            handles {
                tell_the_same_identity,
                a_second_handle_sees_the_writes_of_the_first,
                a_foreign_change_is_told,
                a_foreign_change_is_told_to_a_busy_handle,
                handles_do_not_take_the_same_instance,
                closing_finishes_pending_batches,
                a_closed_handle_answers_closed,
                closing_twice_is_closing_once,
                closing_one_handle_leaves_the_other,
            }
            heartbeats {
                pass_to_the_next_owner,
                of_others_are_kept_off,
                go_with_the_turn_that_names_them,
                of_a_fenced_turn_stay,
                without_details_remove_the_stored_details,
                outlive_a_suspension,
                of_ended_instances_are_kept_off,
            }
            open_work {
                is_that_of_the_last_turn,
                outlives_a_suspension,
                goes_with_the_end,
                comes_with_a_start_and_its_first_turn,
                has_heartbeats_and_offered_attempts,
            }
            footprint {
                counts_the_events_of_every_execution,
                counts_the_messages_of_each_mailbox,
                names_the_fullest_mailboxes,
                of_an_unknown_instance_is_nothing,
            }
            takeovers {
                name_the_worker_that_owned_the_instance,
                name_the_worker_that_ran_an_attempt,
                are_bounded,
                go_with_the_instance,
            }
            logs {
                are_read_in_order,
                are_written_once,
                are_bounded,
                come_with_a_start_and_its_first_turn,
                go_with_the_instance,
                go_with_an_instance_that_is_replaced,
                are_deleted_by_age,
            }
            starts_with_message {
                starts_an_absent_receiver,
                reaches_a_receiver_that_is_there,
                wakes_a_receiver_that_sleeps,
                is_refused_by_a_receiver_that_has_ended,
                may_replace_a_receiver_that_has_ended,
                is_refused_by_a_full_mailbox,
                makes_one_instance_of_a_batch,
                of_two_senders_makes_one_instance,
                with_a_start_that_does_not_fit_is_refused,
            }
            keyed_starts {
                skip_while_the_instance_of_their_key_is_open,
                cancel_the_instance_of_their_key,
                wait_for_their_time_when_they_are_throttled,
                move_the_instance_of_their_key_when_they_are_debounced,
                move_an_instance_in_a_queue,
                join_the_instance_of_their_batch,
                join_the_instance_of_their_batch_in_a_queue,
                fill_batches_that_are_written_together,
                leave_a_batch_that_will_not_run,
                give_each_input_to_one_batch_of_eight_at_once,
                change_nothing_when_they_are_refused,
                make_one_instance_of_eight_at_once,
                see_those_before_them_in_a_batch,
                of_many_keys_in_any_order_come_about,
            }
            late_attempts {
                are_taken_by_a_worker_that_serves_nothing_of_them,
                are_taken_without_room,
                are_not_those_that_a_worker_has,
                wait_anew_when_they_go_back,
                stay_late_when_they_go_back,
                are_those_past_their_deadline,
                count_from_when_they_are_due,
                leave_the_line,
                keep_their_slot_until_they_end,
                leave_their_session,
                are_taken_a_few_at_a_time,
                are_not_those_that_are_withdrawn,
            }
            limited_attempts {
                run_as_many_at_once_as_their_limit,
                without_limits_are_taken_at_once,
                are_taken_by_those_who_serve_them,
                are_limited_for_each_worker,
                are_limited_for_each_key,
                begin_at_the_rate,
                come_by_priority_and_turn,
                wait_in_line_from_when_they_are_due,
                keep_their_slots_over_workers,
                leave_when_they_are_withdrawn,
                leave_with_their_instance,
                of_sessions_get_a_slot_first,
                of_sessions_are_routed_when_they_are_due,
                share_the_limits_with_instances,
                are_limited_when_they_are_tried_again,
                wait_while_their_queue_is_paused,
                are_told_with_their_places,
            }
            admission {
                count_the_instances_that_a_worker_owns,
                give_each_key_as_many_slots_as_its_limit,
                keep_the_order_of_a_key_whose_instances_are_held,
                keep_the_order_of_a_key_for_workers_of_one_orchestration,
                give_slots_by_priority_and_then_to_the_first_come,
                let_keys_take_turns,
                give_delayed_instances_their_turns_by_time,
                admit_no_more_than_the_rate_in_any_span,
                admit_no_more_of_a_key_than_its_rate,
                count_by_the_rate_that_holds,
                give_slots_only_for_what_the_worker_can_run,
                settle_the_version_of_what_they_give_a_slot,
                keep_their_limit_if_many_workers_ask_at_once,
            }
            asks {
                are_messages_of_their_receiver,
                wake_their_receiver,
                of_one_id_are_one_ask,
                of_two_processes_are_one_ask,
                may_be_answered_without_a_text,
                are_answered_by_the_owner_alone,
                tell_other_processes_of_answers,
                are_refused_as_messages_are,
                that_are_no_asks_are_refused,
                end_with_their_receiver,
                are_kept_over_executions,
                go_with_their_receiver,
                keep_their_last_answers,
                are_answered_with_the_rest_of_a_turn,
                may_start_their_receiver,
                that_start_their_receiver_do_so_once,
                that_were_not_taken_start_their_receiver_again,
            }
            state {
                has_what_its_turns_left,
                may_have_a_value_without_a_text,
                is_kept_over_executions,
                changes_with_its_turn,
                comes_with_a_start_and_its_first_turn,
                goes_with_the_instance,
            }
            filters {
                filters_by_status,
                filters_by_name_version_and_parent,
                filters_by_exact_ids,
                filters_out_built_in_orchestrations,
                filters_by_the_beginning_of_an_id,
                filters_by_tags,
                filters_by_times,
                filters_by_several_conditions_at_once,
                finds_the_children_of_a_deleted_parent,
                finds_the_same_along_each_index,
                finds_ids_by_their_prefix_where_many_begin_with_it,
            }
            listing {
                brings_the_newest_first,
                brings_whole_statuses,
                continues_at_the_end_of_a_page,
                is_not_disturbed_between_its_pages,
                walks_no_further_than_it_may,
                holds_no_more_than_so_many_bytes,
                begins_at_any_place,
            }
            messages {
                keep_their_order_over_every_kind,
                numbers_of_an_instance_only_rise,
                that_are_old_are_told_from_new_ones_at_an_acquisition,
                tell_the_owner_of_the_instance,
                make_a_sleeping_instance_due,
                leave_an_instance_that_is_due_in_its_place,
                wait_at_a_suspended_instance,
                are_refused_by_an_ended_instance,
                are_refused_for_an_unknown_id,
                are_gone_with_the_turn_that_consumed_them,
                that_were_not_consumed_pass_to_the_next_owner,
                of_a_fenced_turn_still_wait,
                cannot_be_consumed_twice,
                in_the_inbox_are_those_of_the_worker_since_a_position,
                that_come_between_pages_of_the_inbox_are_read_too,
                in_the_inbox_are_found_among_many_of_others,
            }
            cross_instance {
                a_turn_starts_instances,
                a_fenced_turn_does_nothing_to_others,
                a_refused_batch_starts_nothing,
                a_turn_sends_messages,
                messages_come_after_the_starts,
                refusals_are_reported_to_the_instance,
                a_message_to_a_full_mailbox_is_refused,
                a_refusal_wakes_an_instance_that_is_released_with_it,
                an_end_is_told_of_no_refusal,
                the_end_of_a_child_is_told_to_its_parent,
                a_child_that_continues_as_new_is_the_same_child,
                the_end_of_a_child_wakes_its_parent,
                the_end_of_a_child_is_reported_only_to_a_waiting_parent,
                a_turn_cancels_children,
                a_termination_cancels_the_children,
                a_suspended_child_ends_with_its_parent,
                a_suspended_child_ends_when_it_is_cancelled,
                a_suspended_family_ends_as_one,
                a_turn_starts_many,
            }
            pages {
                of_a_history_end_with_the_event_that_fills_them,
                of_a_history_are_read_when_the_worker_is_the_owner,
                of_messages_end_with_the_one_that_fills_them,
                of_an_instance_whose_code_was_kept_has_no_history,
                of_an_inbox_end_with_the_message_that_fills_them,
                of_tasks_end_with_the_one_that_fills_them,
                of_statuses_end_with_the_one_that_exceeds_them,
            }
            paused_queues {
                give_no_slot_until_their_pause_ends,
                leave_the_slots_that_were_given,
                give_no_slot_with_a_start,
                keep_what_comes_due_meanwhile,
                stay_paused_when_their_limits_change,
                hold_up_no_other_queue,
            }
            payloads {
                texts_come_back_as_they_went_in,
                every_kind_of_event_comes_back,
                every_column_of_an_instance_comes_back,
            }
            queues {
                give_as_many_slots_as_their_limit,
                without_limits_let_all_begin,
                leave_in_line_what_the_request_has_no_room_for,
                free_the_slot_of_an_instance_that_ends_in_any_way,
                leave_an_instance_its_slot_until_its_end,
                keep_what_is_in_line_from_being_woken,
                end_what_is_in_line_at_once_if_it_is_cancelled,
                keep_what_is_suspended_out_of_the_line,
                that_are_not_set_take_no_start,
                give_slots_to_children_and_detached_instances,
                change_their_limits_while_instances_wait,
                are_deleted_when_no_instance_is_in_them,
                are_listed_with_their_counts,
                are_no_more_than_a_store_may_have,
                let_delayed_instances_into_the_line_at_their_time,
                let_delayed_instances_into_the_line_that_are_too_many_for_a_pass,
                are_no_business_of_starts_that_are_only_delayed,
                are_named_with_the_place_of_an_instance,
                give_nothing_to_a_worker_that_is_not_registered,
            }
            release {
                sleeps_until_its_time,
                sleeps_for_ever_without_a_time,
                a_message_that_was_not_seen_makes_it_due_at_once,
                a_message_that_was_seen_does_not,
                a_message_that_was_not_seen_does_not_delay_an_earlier_time,
                fences_off_the_former_owner,
                releases_only_its_own_instance,
            }
            replacing {
                restart_if_failed_keeps_what_completed_or_goes_on,
                terminate_and_restart_replaces_a_running_instance,
                terminate_and_restart_takes_any_state,
                terminate_and_restart_tells_parent_and_children,
                eight_replacing_starts_at_once_leave_one_instance,
                eight_restarts_at_once_make_one_instance,
                a_turn_replaces_others_and_not_itself,
                a_turn_replaces_what_it_has_started_itself,
            }
            revocation {
                is_told_until_the_owner_lets_go,
                of_an_earlier_epoch_is_reported_to_an_owner_that_has_it_again,
                of_an_instance_without_owner_is_no_news,
                is_forgotten_with_the_worker,
                wakes_the_owner_elsewhere,
            }
            starts {
                a_started_instance_is_pending_and_due,
                a_claimed_start_belongs_to_its_worker,
                a_claim_of_an_unregistered_worker_leaves_the_instance_due,
                an_id_in_use_is_kept,
                an_id_twice_in_a_batch_is_started_once,
                eight_starts_at_once_make_one_instance,
                restart_replaces_an_ended_instance,
                restart_keeps_an_instance_that_has_not_ended,
                restart_fences_off_the_former_instance,
                a_start_brings_its_first_turn_along,
                a_first_turn_may_end_its_instance_or_let_it_sleep,
                a_first_turn_of_an_unregistered_worker_is_dropped,
                a_first_turn_that_does_not_fit_its_start_is_refused,
                a_start_without_its_first_event_is_refused,
            }
            stats {
                of_an_empty_store_are_nothing,
                count_instances_by_status,
                count_messages_that_wait,
                count_workers_that_are_alive,
                count_attempts_by_queue,
                count_due_and_overdue_instances,
                name_overdue_orchestrations,
                find_overdue_instances_among_sleeping_ones,
                name_overdue_attempts,
                name_workers_with_their_instances_and_tasks,
            }
            statuses {
                come_in_the_order_of_the_ids,
                of_no_ids_are_none,
                show_the_times_of_an_instance,
                show_the_result_of_each_end,
                name_instances_by_their_keys,
            }
            streams {
                number_their_entries_without_gap,
                keep_the_order_of_a_batch,
                of_many_batches_at_once_have_no_gap,
                are_written_with_their_turn,
                fence_off_others_than_the_owner,
                fence_off_others_than_the_runner,
                that_are_closed_take_nothing,
                tell_of_later_runs,
                are_read_in_pages,
                are_read_in_pages_of_bytes,
            }
            stream_lives {
                keep_their_last_entries,
                that_are_gone_are_told_by_later_runs,
                are_deleted_when_their_time_is_over,
                are_kept_over_executions,
                are_listed,
                bring_back_any_text,
                come_with_a_start_and_its_first_turn,
                come_with_a_turn_that_wakes,
                are_swept_with_their_instance,
                begin_anew_with_a_replacing_instance,
                are_told_to_other_processes,
            }
            suspension {
                holds_the_instance_with_its_report,
                ends_with_resume_and_is_due_at_once,
                keeps_an_instance_fresh,
                is_no_first_turn_for_an_instance_that_had_one,
                fences_off_the_former_owner,
                resume_changes_nothing_else,
                of_other_code_ends_when_code_is_registered,
                of_the_same_code_lasts,
                of_other_orchestrations_lasts,
                that_names_no_code_lasts,
                that_is_over_is_forgotten_with_its_code,
                of_other_code_ends_in_pages,
                of_other_code_again_is_met_once,
            }
            suspending {
                holds_a_pending_instance,
                keeps_the_start_time_of_an_instance,
                holds_an_owned_instance_and_fences_off_its_owner,
                holds_a_sleeping_instance,
                lets_messages_wait,
                changes_no_suspended_instance,
                outlasts_other_code,
                changes_no_ended_instance,
                leaves_it_to_be_terminated,
            }
            suspicion {
                of_a_death_is_no_evidence,
                of_a_death_on_probation_suspends_in_the_end,
                of_a_death_on_probation_with_others_is_no_evidence,
                of_deaths_beside_activities_is_forgotten_after_a_probation_without_incident,
                of_a_stall_suspends_in_the_end,
                is_of_an_expired_worker_as_of_a_dead_one,
                ends_with_a_turn_that_gets_on,
                ends_with_a_resume,
                lets_an_instance_rest,
                a_trial_ends_when_that_is_said,
                a_trial_ends_with_its_owner,
                a_trial_of_another_owner_is_kept_off,
                giving_back_keeps_the_named_instances,
                giving_back_fences_off_the_former_owner,
                giving_back_names_nothing_that_is_not_its_own,
                gives_back_tasks,
                asks_nothing_of_the_rows_of_an_instance,
            }
            tasks {
                are_taken_by_a_worker_that_serves_their_queue,
                come_with_the_version_and_the_tags_of_the_instance,
                are_not_taken_for_another_queue_or_activity,
                of_every_queue_are_taken_by_a_worker_that_serves_any,
                come_by_priority_and_time,
                wait_from_their_offer_on,
                the_end_of_one_is_told_to_its_instance,
                the_end_of_one_wakes_its_instance,
                fence_off_ends_of_other_workers_and_attempts,
                can_be_withdrawn,
                can_be_offered_again,
                of_a_fenced_turn_are_not_offered,
                go_with_a_termination,
                of_a_former_execution_are_reported_to_no_instance,
                keep_their_heartbeats,
                of_an_ended_instance_are_reported_to_no_instance,
                are_of_activities_that_are_known_for_good,
                are_returned_by_their_own_worker,
            }
            termination {
                ends_a_pending_instance,
                ends_an_owned_instance_and_fences_off_its_owner,
                ends_a_sleeping_instance,
                ends_a_suspended_instance,
                drops_the_messages,
                changes_no_ended_instance,
                of_an_unknown_id_is_not_found,
            }
            turns {
                append_events_and_move_the_instance_on,
                without_events_are_turns,
                of_one_instance_may_follow_each_other_in_a_batch,
                count_the_changes_of_the_custom_status,
                tell_the_status_that_they_were_asked_for,
                that_end_an_instance_end_it_for_good,
                history_is_read_in_pages,
                with_a_gap_between_event_ids_are_refused,
                that_end_and_do_not_say_so_are_refused,
                of_a_thousand_instances_fit_a_batch,
            }
            versions {
                that_are_open_are_settled_by_an_acquisition,
                that_are_open_become_the_newest_of_a_live_worker,
                that_a_worker_tells_of_later_count,
                of_workers_that_are_gone_do_not_count,
            }
            waking {
                acquires_its_instance,
                may_put_its_instance_to_sleep_again,
                may_end_its_instance,
                may_continue_its_instance_as_new,
                wakes_an_instance_that_is_due,
                is_fenced_off_by_a_message,
                is_fenced_off_by_an_acquisition,
                is_fenced_off_by_the_status,
                needs_a_registered_worker,
                goes_with_other_turns_in_a_batch,
                may_consume_the_messages_that_wait,
                may_leave_messages_that_it_has_seen,
                may_end_its_instance_with_messages,
                may_send_the_ask_that_wakes_its_instance,
                is_fenced_off_by_an_ask_that_is_there,
                sends_no_ask_to_an_instance_that_is_awake,
            }
            workers {
                are_listed_with_their_leases,
                tell_of_themselves,
                registered_twice_are_one,
                renew_their_lease_from_now,
                that_were_removed_cannot_renew,
                that_are_removed_release_their_instances,
                whose_lease_ended_are_taken_over,
                whose_lease_has_not_ended_keep_their_instances,
                that_are_unknown_release_nothing,
                get_a_list_of_their_instances_and_tasks,
            }
        }
    };
}
