//! The table of behaviours.

/// A behaviour of Ollama.
pub(super) struct Behaviour {
    pub(super) number: usize,
    /// What Ollama does.
    pub(super) summary: &'static str,
    /// What Cairn does differently, and why.
    pub(super) difference: Option<&'static str>,
    /// The tests that prove it: files and the names of tests in them.
    pub(super) tests: &'static [(&'static str, &'static [&'static str])],
}

/// All behaviours, in the order of their numbers.
pub(super) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour {
        number: 1,
        summary: "`stream` is true by default in `/api` and false in `/v1`",
        difference: None,
        tests: &[("it/behaviours/requests.rs", &["absent_stream_parameter_streams_only_the_native_api"])],
    },
    Behaviour {
        number: 2,
        summary: "`repeat_penalty` is 1 by default; in `/v1`, `temperature` and `top_p` are 1 unless the request has \
                  them",
        difference: None,
        tests: &[
            ("it/behaviours/requests.rs", &["absent_temperature_is_that_of_the_model_or_1_in_the_openai_api"]),
            ("app/src/inference/options.rs", &["request_options_override_model_and_defaults"]),
        ],
    },
    Behaviour {
        number: 3,
        summary: "a request without a prompt loads the model, or unloads it with `keep_alive` 0: one object without \
                  metrics",
        difference: None,
        tests: &[("http/src/tests.rs", &["empty_request_loads_or_unloads_the_model"])],
    },
    Behaviour {
        number: 4,
        summary: "`keep_alive` is seconds or a Go duration, negative for ever; it stays for later requests and begins \
                  when the last one ends",
        difference: None,
        tests: &[
            (
                "it/behaviours/engine.rs",
                &[
                    "keep_alive_of_a_request_stays_until_another_sets_it",
                    "keep_alive_time_begins_when_the_last_request_ends",
                ],
            ),
            (
                "wire/src/keep_alive.rs",
                &["keep_alive_reads_seconds_and_durations", "keep_alive_serialises_as_a_duration"],
            ),
        ],
    },
    Behaviour {
        number: 5,
        summary: "the digest of a model is the SHA-256 of its manifest file, without `sha256:`; blobs are named \
                  `sha256-`",
        difference: None,
        tests: &[("it/behaviours/library.rs", &["digest_of_a_model_is_that_of_its_manifest_file"])],
    },
    Behaviour {
        number: 6,
        summary: "a pulled manifest is stored byte for byte; one that is written here ends with a newline",
        difference: None,
        tests: &[
            ("it/behaviours/library.rs", &["manifest_of_a_created_model_ends_with_a_newline"]),
            ("it/pulls.rs", &["pulled_model_is_complete_and_runs"]),
            ("store/src/staging/tests.rs", &["publish_stores_the_manifest_unchanged"]),
        ],
    },
    Behaviour {
        number: 7,
        summary: "names match without regard to case and keep their spelling; namespaces have no dots; limits are in \
                  bytes",
        difference: None,
        tests: &[
            ("it/behaviours/library.rs", &["name_in_another_case_is_the_same_model_and_keeps_its_spelling"]),
            ("store/src/name.rs", &["names_are_parsed_and_formatted", "comparison_ignores_case"]),
            ("store/src/library/tests.rs", &["find_ignores_case"]),
        ],
    },
    Behaviour {
        number: 8,
        summary: "the error for a missing model quotes its name as the endpoint does",
        difference: Some(
            "`/api/embeddings` has the text of `/api/embed`: one text for one error. An invalid name is `invalid \
             model name` with status 400 everywhere: Ollama's `model is required` and 404 hide the mistake, and \
             clients would pull it.",
        ),
        tests: &[
            ("it/behaviours/requests.rs", &["missing_model_error_has_the_quotes_of_its_endpoint"]),
            ("it/clients.rs", &["npm_ollama_package_manages_models"]),
        ],
    },
    Behaviour {
        number: 9,
        summary: "an error before the stream has a status; a later one is the last line, with status 200",
        difference: None,
        tests: &[
            ("it/behaviours/requests.rs", &["error_has_a_status_before_the_stream_and_is_its_last_line_afterwards"]),
            ("http/src/tests/panics.rs", &["stream_that_panics_ends_with_an_error"]),
        ],
    },
    Behaviour {
        number: 10,
        summary: "the 503 of a full queue has two spaces in its text; a cancelled request is logged with 499",
        difference: None,
        tests: &[
            ("it/behaviours/engine.rs", &["request_beyond_the_queue_is_refused_with_the_text_of_ollama"]),
            ("it/behaviours/queue.rs", &["concurrent_clients_beyond_the_queue_are_refused_exactly"]),
            ("http/src/tests/server.rs", &["request_of_a_disconnected_client_ends_with_status_499"]),
        ],
    },
    Behaviour {
        number: 11,
        summary: "durations are whole nanoseconds, omitted if zero; `created_at` has nanoseconds and `Z`",
        difference: None,
        tests: &[
            ("http/src/tests.rs", &["chat_streams_and_reuses_the_cached_prompt"]),
            ("wire/src/timestamp.rs", &["timestamp_round_trips_through_text"]),
        ],
    },
    Behaviour {
        number: 12,
        summary: "`prompt_eval_count` includes cached tokens",
        difference: None,
        tests: &[("http/src/tests.rs", &["chat_streams_and_reuses_the_cached_prompt"])],
    },
    Behaviour {
        number: 13,
        summary: "a thinking model thinks unless `think` is false; `think` is refused by other models, except in \
                  Anthropic's API",
        difference: None,
        tests: &[
            ("http/src/tests.rs", &["thinking_is_separate_from_the_answer"]),
            ("http/src/tests/rejections.rs", &["value_errors_have_status_400"]),
            ("http/src/tests/anthropic.rs", &["model_without_thinking_ignores_the_request_to_think"]),
        ],
    },
    Behaviour {
        number: 14,
        summary: "arguments of a tool call are an object in the order of the model, and a text in OpenAI's API; the \
                  index is always present",
        difference: Some(
            "Each call is sent when it is complete. Ollama sends those that it parses with the template of the file \
             with the last line; clients accept both, and the first begins the tool earlier.",
        ),
        tests: &[
            ("it/behaviours/answers.rs", &["tool_call_arguments_keep_their_order_and_are_text_in_the_openai_api"]),
            ("http/src/tests/tools.rs", &["ollama_chat_calls_tools_and_reads_their_results"]),
        ],
    },
    Behaviour {
        number: 15,
        summary: "tools for a model without them are refused with 400 and the full name of the model",
        difference: None,
        tests: &[("http/src/tests/tools.rs", &["tools_and_images_are_refused_by_models_without_them"])],
    },
    Behaviour {
        number: 16,
        summary: "the model's system message is added unless the first message is one; its example messages always \
                  come first",
        difference: None,
        tests: &[
            ("it/behaviours/answers.rs", &["system_message_of_the_model_is_omitted_only_if_the_first_message_is_one"]),
            ("http/src/tests.rs", &["system_message_of_the_model_is_a_default"]),
        ],
    },
    Behaviour {
        number: 17,
        summary: "Go templates get neighbours of one role merged by a blank line, except tool results; `.System` \
                  repeats the system messages",
        difference: None,
        tests: &[("prompt/src/template/go/tests.rs", &["consecutive_messages_of_one_role_are_merged"])],
    },
    Behaviour {
        number: 18,
        summary: "`json` in Go templates escapes `<>&`; maps print in sorted order; missing keys are zero values",
        difference: None,
        tests: &[("prompt/src/template/go/tests.rs", &["language_features_render", "tools_and_calls_print_as_json"])],
    },
    Behaviour {
        number: 19,
        summary: "a missing `.Response` is appended to a Go template; the last exchange ends at it",
        difference: None,
        tests: &[(
            "prompt/src/template/go/tests.rs",
            &["last_exchange_ends_at_response", "template_runs_once_per_exchange"],
        )],
    },
    Behaviour {
        number: 20,
        summary: "partial thinking tags are withheld; white space after both tags is dropped; a prompt may begin the \
                  thinking",
        difference: None,
        tests: &[
            (
                "prompt/src/thinking/tests.rs",
                &[
                    "reasoning_is_split_from_answer",
                    "answer_without_reasoning_is_text",
                    "truncated_answer_keeps_buffered_text",
                    "result_is_independent_of_chunk_boundaries",
                ],
            ),
            ("http/src/tests.rs", &["thinking_is_separate_from_the_answer"]),
        ],
    },
    Behaviour {
        number: 21,
        summary: "a brace or bracket begins a tool call only at the start of the answer",
        difference: None,
        tests: &[
            ("prompt/tests/answers.rs", &["answers_give_expected_deltas_however_cut"]),
            ("prompt/src/template/go/tests.rs", &["answer_format_follows_text_before_tool_calls"]),
        ],
    },
    Behaviour {
        number: 22,
        summary: "the format of an answer does not constrain the thinking before it",
        difference: Some(
            "The constraint begins after the closing tag, in the same generation. Ollama generates twice, which \
             computes the thoughts a second time.",
        ),
        tests: &[
            ("it/behaviours/answers.rs", &["structured_answer_of_a_thinking_model_leaves_its_thoughts_free"]),
            (
                "runtime/src/constraint.rs",
                &["reasoning_is_free_until_its_closing_tag", "prompt_that_began_the_reasoning_leaves_it_free"],
            ),
        ],
    },
    Behaviour {
        number: 23,
        summary: "`context` of `/api/generate` is the tokens of prompt and answer; a raw request gets none",
        difference: None,
        tests: &[("http/src/tests.rs", &["generate_streams_and_continues_from_context"])],
    },
    Behaviour {
        number: 24,
        summary: "vectors of `/api/embed` have length 1, also with `dimensions`; `truncate: false` refuses a long \
                  text; no input gives no vectors",
        difference: Some(
            "`/api/embeddings` normalises too, as llama-server does for nearly all models. The error for a long text \
             begins as in Ollama and adds the tokens.",
        ),
        tests: &[(
            "http/src/tests/embeddings.rs",
            &[
                "embed_returns_normalised_vectors_in_order",
                "empty_input_loads_the_model",
                "long_text_is_cut_or_refused",
            ],
        )],
    },
    Behaviour {
        number: 25,
        summary: "`/api/show` has null for arrays unless verbose, an object for `model_info`, padded parameters with \
                  quoted texts, and tensors",
        difference: None,
        tests: &[
            ("http/src/tests.rs", &["models_are_listed_and_shown"]),
            ("app/src/library/show.rs", &["arrays_are_null_unless_verbose", "parameters_are_formatted_as_lines"]),
        ],
    },
    Behaviour {
        number: 26,
        summary: "`/api/tags` is sorted by age, `/api/ps` by expiry; `size_vram` and `size` give the share of the GPU",
        difference: None,
        tests: &[
            ("it/behaviours/library.rs", &["models_in_a_list_are_sorted_by_age"]),
            ("it/behaviours/engine.rs", &["loaded_models_are_sorted_by_expiry_with_their_place"]),
            ("cli/src/ps.rs", &["processor_column_shows_cpu_and_gpu_share"]),
        ],
    },
    Behaviour {
        number: 27,
        summary: "blobs are downloaded in ranges from a redirect target without credentials, resumed, restarted after \
                  30 s without bytes, and verified once",
        difference: Some(
            "The size of a range follows the measured speed, several sources share a blob, and one journal records \
             finished ranges, so that less is sent twice. A registry that sends blobs without a redirect works too.",
        ),
        tests: &[
            ("it/pulls.rs", &["pulled_model_is_complete_and_runs", "pull_resumes_after_daemon_kill"]),
            ("registry/src/client/tests/redirects.rs", &["credentials_are_not_sent_to_redirect_target"]),
            ("registry/src/download/tests.rs", &["existing_blob_is_not_downloaded"]),
            ("registry/src/download/state/tests.rs", &["range_of_silent_stream_is_taken_over"]),
            ("registry/src/download/tests/faults.rs", &["stalls_fail_download_only_without_other_data"]),
        ],
    },
    Behaviour {
        number: 28,
        summary: "a token request signs its URL and the digest of an empty body; the token server must be the \
                  registry's host",
        difference: Some("The user can trust another token server by name, because some registries have one."),
        tests: &[
            (
                "registry/src/client/authenticate/tests.rs",
                &["token_request_is_signed_completely", "credentials_are_not_sent_to_foreign_token_server"],
            ),
            ("registry/src/client/authenticate/token.rs", &["empty_body_constant_is_digest_of_nothing"]),
        ],
    },
    Behaviour {
        number: 29,
        summary: "a page of another origin gets 403, also for a GET; the Host header must name this machine",
        difference: Some(
            "Names that end with `.local` or `.internal` are accepted only if they are this machine's, on every \
             address: another machine can claim them and attack by DNS rebinding.",
        ),
        tests: &[
            (
                "http/src/tests/access.rs",
                &[
                    "api_is_open_to_local_pages_only",
                    "preflight_accepts_local_pages_only",
                    "host_header_with_public_name_is_rejected",
                ],
            ),
            ("http/src/tests/access_matrix.rs", &["requests_are_allowed_exactly_as_documented"]),
            ("http/src/access/host.rs", &["host_is_classified_by_names_of_this_machine"]),
        ],
    },
    Behaviour {
        number: 30,
        summary: "the start removes only unreferenced blobs older than an hour, and none if a manifest is damaged; \
                  sampling options never reload a model",
        difference: Some(
            "A context size and `shift` apply to one request, and `num_batch`, `num_gpu` and `use_mmap` have no \
             effect, so that none of them reloads. A type of the KV cache, a number of threads and long RoPE factors \
             do.",
        ),
        tests: &[
            ("it/behaviours/library.rs", &["daemon_start_removes_old_unreferenced_blobs_unless_a_manifest_is_damaged"]),
            ("it/behaviours/engine.rs", &["sampling_options_and_shift_never_reload_the_model"]),
            ("runtime/tests/suite/requests.rs", &["longer_context_reloads_only_with_long_rope_factors"]),
            (
                "store/src/write/garbage/tests.rs",
                &["old_unreferenced_blobs_are_removed", "nothing_is_removed_while_a_manifest_is_unreadable"],
            ),
        ],
    },
];
