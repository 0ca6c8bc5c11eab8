//! The commands about published images.

use clap::{Args, Subcommand};
use estimand_api::image::{ImageDigest, ImageName};

use super::{Remote, Remotely, parse};

const IMAGES_EXAMPLES: &str = "\
A task whose image is a published name runs the content that its digest says, whatever a tag means by then.

Examples:
  estimand images publish mnist:2 registry.example.com/team/mnist:2 sha256:4f1c…
  estimand images publish mnist local/mnist \"$(docker image inspect --format '{{.Id}}' local/mnist)\"
  estimand images list
  estimand images remove mnist:1";

#[derive(Debug, Args)]
#[command(after_help = IMAGES_EXAMPLES)]
pub struct ImagesArgs {
    #[command(subcommand)]
    pub action: Option<ImagesAction>,
}

#[derive(Debug, Subcommand)]
pub enum ImagesAction {
    /// Publish an image under a name, or another one under a name that is there
    Publish(Remotely<PublishImageArgs>),
    /// List published images
    List(Remotely<ListImagesArgs>),
    /// Show all about a published image
    Show(Remotely<ImageArgs>),
    /// Publish images no longer; tasks that were accepted before run them all the same
    Remove(Remotely<RemoveImagesArgs>),
}

#[derive(Debug, Args)]
pub struct PublishImageArgs {
    /// The name that tasks use, such as mnist or mnist:2
    pub name: ImageName,
    /// The image in its registry, or on the nodes that have it
    pub reference: String,
    /// Its digest in its registry, or its id where it was built: sha256:…
    pub digest: ImageDigest,
    /// A description for people
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// A label to find it by; may be repeated
    #[arg(long = "label", id = "labels", value_name = "KEY=VALUE", value_parser = parse::label)]
    pub labels: Vec<(String, String)>,
}

#[derive(Debug, Default, Args)]
pub struct ListImagesArgs {
    /// Only those with these labels
    #[arg(long, value_name = "SELECTOR")]
    pub labels: Option<String>,
}

#[derive(Debug, Args)]
pub struct ImageArgs {
    /// Its name
    pub name: ImageName,
}

#[derive(Debug, Args)]
pub struct RemoveImagesArgs {
    /// Their names
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<ImageName>,
}

impl ImagesArgs {
    /// The common options that stood after the action.
    pub fn inner(&self) -> Option<&Remote> {
        Some(match self.action.as_ref()? {
            ImagesAction::Publish(args) => &args.remote,
            ImagesAction::List(args) => &args.remote,
            ImagesAction::Show(args) => &args.remote,
            ImagesAction::Remove(args) => &args.remote,
        })
    }
}
