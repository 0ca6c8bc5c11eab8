//! The tables as diesel sees them: the same in all three databases.
//!
//! `migrations/` makes them; a column is in both places or in neither. Instants and spans are
//! microseconds. The order of columns is the order in which rows are read and written.

diesel::table! {
    t_dp (data_name) {
        data_name -> Text,
        cmd -> Text,
        time_max -> Nullable<Double>,
        spec -> Text,
        version -> BigInt,
        created_at -> BigInt,
        updated_at -> BigInt,
    }
}

diesel::table! {
    t_dp_history (data_name, version) {
        data_name -> Text,
        version -> BigInt,
        action -> Text,
        at -> BigInt,
        actor -> Text,
        spec -> Text,
    }
}

diesel::table! {
    t_upload (sha256) {
        sha256 -> Text,
        content -> Binary,
        at -> BigInt,
    }
}

diesel::table! {
    t_data (id) {
        id -> Text,
        data_name -> Text,
        node_name -> Text,
        data_value -> Text,
        collected_at -> BigInt,
        received_at -> BigInt,
        valid_for -> Nullable<BigInt>,
        failed -> Bool,
        lost -> Bool,
        revision -> BigInt,
        epoch -> BigInt,
        sequence -> BigInt,
        provenance -> Nullable<Text>,
    }
}

diesel::table! {
    t_journal (sequence) {
        sequence -> BigInt,
        revision -> BigInt,
        checksum -> BigInt,
        content -> Binary,
    }
}

diesel::table! {
    t_history (data_name, node_name, revision) {
        data_name -> Text,
        node_name -> Text,
        revision -> BigInt,
        data_value -> Text,
        collected_at -> BigInt,
        received_at -> BigInt,
    }
}

diesel::table! {
    t_retention (data_name) {
        data_name -> Text,
        keep_us -> Nullable<BigInt>,
        max_count -> Nullable<BigInt>,
    }
}

diesel::table! {
    t_binding (data_name) {
        data_name -> Text,
        target -> Text,
        at -> BigInt,
        field -> Nullable<Text>,
    }
}

diesel::table! {
    t_binding_history (data_name, revision) {
        data_name -> Text,
        revision -> BigInt,
        action -> Text,
        at -> BigInt,
        actor -> Text,
        target -> Text,
        field -> Nullable<Text>,
        before_target -> Nullable<Text>,
        before_field -> Nullable<Text>,
    }
}

diesel::table! {
    t_owner (name) {
        name -> Text,
        epoch -> BigInt,
        revision -> BigInt,
    }
}

diesel::table! {
    t_node (node_name) {
        node_name -> Text,
        labels -> Text,
        facts -> Text,
        agent -> Text,
        boot -> BigInt,
        cordoned -> Bool,
        lost -> Bool,
        seen_at -> BigInt,
        created_at -> BigInt,
        given_labels -> Nullable<Text>,
    }
}

diesel::table! {
    t_placement (node_name, data_name) {
        data_name -> Text,
        node_name -> Text,
        moves -> BigInt,
        placed_at -> BigInt,
    }
}

diesel::table! {
    t_holder (name) {
        name -> Text,
        holder -> Text,
        beat -> BigInt,
    }
}

diesel::table! {
    t_leader (role) {
        role -> Text,
        epoch -> BigInt,
        beat -> BigInt,
        holder -> Text,
        address -> Text,
    }
}

diesel::table! {
    t_token (id) {
        id -> Text,
        name -> Text,
        hash -> Text,
        role -> Text,
        node_name -> Nullable<Text>,
        created_at -> BigInt,
        created_by -> Text,
        expires_at -> Nullable<BigInt>,
        revoked_at -> Nullable<BigInt>,
        used_by -> Nullable<Text>,
        labels -> Nullable<Text>,
        user_name -> Nullable<Text>,
    }
}

diesel::table! {
    t_audit (at, id) {
        at -> BigInt,
        id -> Text,
        kind -> Text,
        subject -> Text,
        action -> Text,
        actor -> Text,
        detail -> Nullable<Text>,
    }
}

diesel::table! {
    t_task (number) {
        number -> BigInt,
        id -> Text,
        idempotency_key -> Nullable<Text>,
        document -> Text,
        progress -> Text,
        why -> Nullable<Text>,
        log -> Text,
        submitted_at -> BigInt,
        submitted_by -> Text,
        ended_at -> Nullable<BigInt>,
    }
}

diesel::table! {
    t_task_array (number) {
        number -> BigInt,
        id -> Text,
        idempotency_key -> Nullable<Text>,
        document -> Text,
        size -> BigInt,
    }
}

diesel::table! {
    t_task_gone (id) {
        id -> Text,
        attempt -> BigInt,
        at -> BigInt,
    }
}

diesel::table! {
    t_task_event (task, place) {
        task -> BigInt,
        place -> BigInt,
        at -> BigInt,
        transition -> Text,
    }
}

diesel::table! {
    t_task_log (task, line_number) {
        task -> BigInt,
        line_number -> BigInt,
        attempt -> BigInt,
        at -> BigInt,
        stream -> Text,
        content -> Text,
        continues -> Bool,
        dropped -> BigInt,
        written -> Nullable<Binary>,
    }
}

diesel::table! {
    t_task_log_removal (task) {
        task -> BigInt,
    }
}

diesel::table! {
    t_task_output (task) {
        task -> BigInt,
        outputs -> Text,
    }
}

diesel::table! {
    t_task_feed (revision) {
        revision -> BigInt,
        task -> BigInt,
        id -> Text,
        at -> BigInt,
        event -> Text,
    }
}

diesel::table! {
    t_task_progress (revision) {
        revision -> BigInt,
        task -> BigInt,
        place -> BigInt,
        report -> Text,
    }
}

diesel::table! {
    t_task_cursor (name) {
        name -> Text,
        revision -> BigInt,
    }
}

diesel::table! {
    t_image (name) {
        name -> Text,
        reference -> Text,
        digest -> Text,
        description -> Nullable<Text>,
        labels -> Text,
        published_at -> BigInt,
        published_by -> Text,
    }
}

diesel::table! {
    t_task_image (number) {
        number -> BigInt,
        name -> Text,
        reference -> Text,
        digest -> Text,
    }
}

diesel::table! {
    t_promise (number) {
        number -> BigInt,
        id -> Text,
        idempotency_key -> Nullable<Text>,
        asked -> Text,
        progress -> Text,
        revision -> BigInt,
        made_at -> BigInt,
        made_by -> Text,
    }
}

diesel::table! {
    t_promise_revision (name) {
        name -> Text,
        revision -> BigInt,
    }
}

diesel::table! {
    t_reservation (number) {
        number -> BigInt,
        id -> Text,
        idempotency_key -> Nullable<Text>,
        account -> Text,
        document -> Text,
        progress -> Text,
        made_at -> BigInt,
        made_by -> Text,
        ended_at -> Nullable<BigInt>,
    }
}

diesel::table! {
    t_credit_entry (number) {
        number -> BigInt,
        at -> BigInt,
        payer -> Nullable<Text>,
        payee -> Text,
        amount -> BigInt,
        reason -> Text,
        reservation -> Nullable<BigInt>,
        idempotency_key -> Nullable<Text>,
        actor -> Text,
    }
}

diesel::table! {
    t_bid (number) {
        number -> BigInt,
        at -> BigInt,
        bid -> Text,
    }
}

diesel::table! {
    t_predictor (number) {
        number -> BigInt,
        choice -> Text,
    }
}

diesel::table! {
    t_user_limit (user_name) {
        user_name -> Text,
        limits -> Text,
    }
}

diesel::table! {
    t_study (number) {
        number -> BigInt,
        id -> Text,
        user_name -> Nullable<Text>,
        document -> Text,
        seed -> BigInt,
        progress -> Text,
        made_at -> BigInt,
        made_by -> Text,
        ended_at -> Nullable<BigInt>,
    }
}

diesel::table! {
    t_trial (study, number) {
        study -> BigInt,
        number -> BigInt,
        parameters -> Text,
        seen -> BigInt,
        idempotency_key -> Nullable<Text>,
        progress -> Text,
        asked_at -> BigInt,
        ended_at -> Nullable<BigInt>,
    }
}

diesel::table! {
    t_trial_report (study, trial, step) {
        study -> BigInt,
        trial -> BigInt,
        step -> BigInt,
        value -> Double,
        at -> BigInt,
    }
}
