//! The tutorial, the how-to guides and the reference pages are typed as they stand, too.

use crate::check;

/// Each page with its test.
macro_rules! pages {
    ($($test:ident: $page:literal,)*) => {
        /// The pages whose commands are typed here.
        pub const TYPED: &[&str] = &[$($page),*];

        $(
            #[test]
            fn $test() {
                check($page);
            }
        )*
    };
}

pages! {
    commands_of_the_tutorial_print_the_output_shown: "docs/tutorial.md",
    commands_of_alerts_print_the_output_shown: "docs/how-to/alerts.md",
    commands_of_backup_and_upgrade_print_the_output_shown: "docs/how-to/backup-and-upgrade.md",
    commands_of_existing_plugins_print_the_output_shown: "docs/how-to/existing-plugins.md",
    commands_of_gpu_nodes_print_the_output_shown: "docs/how-to/gpu-nodes.md",
    commands_of_hdfs_locality_print_the_output_shown: "docs/how-to/hdfs-locality.md",
    commands_of_opentelemetry_print_the_output_shown: "docs/how-to/opentelemetry.md",
    commands_of_postgresql_print_the_output_shown: "docs/how-to/postgresql.md",
    commands_of_python_processor_print_the_output_shown: "docs/how-to/python-processor.md",
    commands_of_scheduler_and_simulator_print_the_output_shown: "docs/how-to/scheduler-and-simulator.md",
    commands_of_behind_a_proxy_print_the_output_shown: "docs/how-to/behind-a-proxy.md",
    commands_of_telegraf_print_the_output_shown: "docs/how-to/telegraf.md",
    commands_of_environment_print_the_output_shown: "docs/reference/environment.md",
}
