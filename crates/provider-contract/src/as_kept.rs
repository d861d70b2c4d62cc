//! The list of the checks of texts as they are kept, as a macro that expands to tests.

/// The checks of [`suite!`] that look at texts as the store itself keeps and counts them.
#[macro_export]
macro_rules! as_kept {
    ($fixture:ty) => {
        $crate::tests! { $fixture;
            pages {
                of_an_acquisition_end_with_the_instance_that_fills_them,
                of_an_acquisition_are_measured_by_the_first_page_of_each,
                of_an_acquisition_count_the_messages_of_each_instance,
                of_messages_that_are_no_mail_are_to_be_read_again,
            }
            footprint {
                counts_the_bytes_of_each_event,
            }
            stream_lives {
                are_read_and_replaced_as_texts,
            }
            texts {
                are_read_at_every_place,
                beside_the_values_are_read_too,
                come_in_pages,
                that_are_not_wanted_are_passed_over,
                are_replaced_where_they_are_as_they_were,
                are_replaced_below_a_running_worker,
                of_answers_are_read_and_replaced,
                of_deleted_instances_are_passed_over,
            }
        }
    };
}
