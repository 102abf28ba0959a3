//! The timed waits that tests may have, each with its reason.

/// Why a test lets time pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The pace of a sender, a receiver, an attacker or a slow disk: nothing is taken for granted behind it.
    Pace,
    /// Nothing may happen in this time, and the test looks whether anything did.
    Silence,
    /// The time is what the test is about: an age, a rate, an alarm's delay.
    Time,
    /// It lets something come first that has no sign to wait for. The test is right without it, and finds more with it.
    ComesFirst,
}

use Reason::{ComesFirst, Pace, Silence, Time};

/// Files, their functions, and the reasons.
pub const ALLOWED: &[(&str, &[(&str, Reason)])] = &[
    ("adapters/eni155p/tests/vfio.rs", &[("a_message_may_come_an_octet_at_a_time", Pace), ("serve", Pace)]),
    (
        "adapters/eni155p/tests/vfio_descriptors.rs",
        &[("a_client_that_cannot_be_accepted_costs_no_processor_and_attaches_when_there_is_a_descriptor", Time)],
    ),
    ("adapters/eni155p/tests/vfio_unread.rs", &[("fill", Pace)]),
    (
        "crates/cellway/tests/cli.rs",
        &[
            ("a_client_killed_in_mid_transfer_leaves_nothing_behind_and_disturbs_no_other", Time),
            ("messages_files_pings_and_changes_to_a_running_network", Silence),
        ],
    ),
    ("crates/cellway/tests/log.rs", &[("a_daemon_whose_standard_error_takes_nothing_serves_and_ends", ComesFirst)]),
    (
        "crates/cellway/tests/metrics.rs",
        &[
            ("desks_and_myrinets_are_rows_with_what_status_says_of_them", Time),
            ("what_is_served_is_what_status_says", Time),
        ],
    ),
    ("crates/cellway/tests/schema/mod.rs", &[("results_are_what_their_schemas_say", ComesFirst)]),
    (
        "crates/control/tests/call_memory.rs",
        &[("a_call_takes_no_more_memory_than_a_hundred_thousand_of_them_may", ComesFirst)],
    ),
    (
        "crates/control/tests/reused.rs",
        &[("a_reload_that_gives_a_label_to_another_circuit_gives_it_nothing_of_the_first_ones_data", ComesFirst)],
    ),
    (
        "crates/host/tests/events.rs",
        &[
            ("a_circuit_with_credits_loses_nothing_however_its_ends_wait_and_whoever_is_slow", Pace),
            ("a_thread_keeps_to_its_cycle_limit_while_all_is_turned_away_and_hears_others_at_once", ComesFirst),
            ("idle_endpoints_cost_nothing_with_interrupts_and_hybrid", Silence),
            ("one_active_endpoint_among_fifty_idle_ones_is_heard_at_once", Pace),
        ],
    ),
    ("crates/host/tests/family/mod.rs", &[("child", Pace)]),
    (
        "crates/host/tests/paths.rs",
        &[
            ("a_wait_for_as_long_as_can_be_said_ends_with_what_it_waits_for", Pace),
            ("memory_held_until_acknowledged_is_sent_again_as_it_was_and_written_afterwards", Time),
        ],
    ),
    (
        "crates/host/tests/service.rs",
        &[("a_service_starts_where_the_doors_of_one_that_was_killed_listen_for_a_moment_yet", Pace)],
    ),
    (
        "crates/host/tests/shards.rs",
        &[
            ("at_rest_no_shard_wakes_up", Silence),
            ("nothing_is_lost_between_shards_while_commands_and_jobs_stop_them", Pace),
        ],
    ),
    (
        "crates/links/tests/texts.rs",
        &[("a_round_takes_few_of_a_peers_texts_and_the_next_ones_take_the_rest", ComesFirst)],
    ),
    ("crates/stack/tests/transfer.rs", &[("write", Pace)]),
    ("tests/hostile/src/stalling.rs", &[("a_close_takes_as_long_as_the_file_system_is_there", Silence)]),
    ("tests/hostile/tests/commands.rs", &[("a_reload_that_cannot_be_leaves_everything_as_it_was", Silence)]),
    ("tests/hostile/tests/death.rs", &[("daemon", Pace)]),
    (
        "tests/hostile/tests/doors.rs",
        &[
            ("a_receiver_that_takes_one_message_a_millisecond_does_not_keep_clocked_senders_from_sending", ComesFirst),
            ("attacker", Pace),
            ("pass_lingering", Pace),
        ],
    ),
    (
        "tests/hostile/tests/freeing.rs",
        &[("memory_files_that_a_client_has_filled_are_not_freed_by_the_services_thread", ComesFirst)],
    ),
    (
        "tests/hostile/tests/memory.rs",
        &[(
            "memory_of_a_direct_circuit_whose_place_in_the_file_somebody_holds_for_ever_holds_up_no_other_user",
            ComesFirst,
        )],
    ),
    ("tests/hostile/tests/memory_bound.rs", &[("drop", Pace)]),
    (
        "tests/hostile/tests/outside.rs",
        &[
            ("a_daemon_whose_description_has_become_a_fifo_serves_and_ends", ComesFirst),
            ("apply_beside_a_command", ComesFirst),
            ("requests_that_wait_for_what_is_outside_keep_nobody_else_waiting_and_are_few", ComesFirst),
        ],
    ),
    (
        "tests/hostile/tests/requests.rs",
        &[("long_answers_that_nobody_takes_hold_little_memory", ComesFirst), ("manage", Pace)],
    ),
    (
        "tests/hostile/tests/rings.rs",
        &[
            (
                "an_endpoint_whose_application_has_gone_makes_no_long_round_when_what_is_left_of_its_ring_is_dropped",
                Time,
            ),
            ("full_rings_that_end_together_keep_no_other_user_waiting", Time),
            ("longest_round", ComesFirst),
            ("the_end_of_an_endpoint_with_hundreds_of_channels_and_a_full_ring_makes_no_long_round", Time),
        ],
    ),
    (
        "tests/hostile/tests/rounds.rs",
        &[
            ("a_capture_between_two_shards_that_is_far_behind_is_put_in_order_elsewhere", ComesFirst),
            ("no_command_takes_long", ComesFirst),
        ],
    ),
    (
        "tests/hostile/tests/shares.rs",
        &[("what_is_sent_while_another_channel_waits_and_the_host_sleeps_leaves_at_once", Pace)],
    ),
    (
        "tests/hostile/tests/soak.rs",
        &[
            ("after_whatever_comes_the_daemon_is_what_it_was_and_the_innocent_lost_nothing", ComesFirst),
            ("babble", Pace),
            ("scribble", Pace),
        ],
    ),
    (
        "tests/hostile/tests/strangers.rs",
        &[
            ("connections_that_say_nothing_keep_no_peer_out", Pace),
            ("connections_without_a_certificate_keep_no_peer_out", Pace),
        ],
    ),
    (
        "tests/hostile/tests/system_calls.rs",
        &[("the_threads_that_carry_cells_wait_in_no_system_call_but_those_of_a_list", Pace)],
    ),
    ("tests/hostile/tests/unread.rs", &[("fill", Pace)]),
    (
        "tests/hostile/tests/user_proxies.rs",
        &[
            ("a_capture_that_has_ended_and_that_nobody_reads_keeps_no_porter_awake", ComesFirst),
            ("a_connection_that_ends_one_way_with_all_queues_full_gives_back_what_it_had", Pace),
            ("a_connection_that_has_ended_and_whose_answers_nobody_takes_keeps_no_porter_awake", ComesFirst),
            ("computes", Silence),
            ("connections_that_come_by_hundreds_while_a_porter_is_busy_end_none_of_its_others", ComesFirst),
            ("manage", Pace),
            (
                "more_descriptors_in_a_packet_than_anybody_has_a_use_for_do_not_keep_their_own_users_next_connection_waiting",
                ComesFirst,
            ),
            ("places_of_hundreds_of_connections_that_end_at_once_come_back_however_late_the_gate_is", ComesFirst),
        ],
    ),
    (
        "tests/hostile/tests/waiting.rs",
        &[
            ("a_ring_of_five_switches_under_load_never_stands_still", Time),
            ("loopback_cells_pass_where_data_waits", ComesFirst),
        ],
    ),
    ("tests/interop/src/line.rs", &[("watched_line", Pace)]),
    ("tests/interop/tests/credit.rs", &[("exchange", Pace)]),
    (
        "tests/interop/tests/eni.rs",
        &[("a_guests_cbr_circuit_leaves_at_its_rate_and_after_a_kill_another_guest_finds_a_fresh_adapter", Time)],
    ),
    (
        "tests/interop/tests/oam.rs",
        &[("tshark_names_each_oam_cell_that_a_running_network_sends_and_finds_its_crc_10_right", Time)],
    ),
    ("tests/interop/tests/relay.rs", &[("all_that_a_peer_says_before_it_goes_arrives", ComesFirst)]),
];
