//! The help texts of `/?`.

use super::command::Topic;

const ALL: &str = "\
Commands:
  /set            Set parameters and display options
  /show           Show details of the model
  /load MODEL     Start a new chat with another model
  /save NAME      Save the model with this session's system message, parameters and messages
  /clear          Clear the messages
  /list           List models
  /bye            Leave (or Ctrl-D)
  /?, /help       This help; more with /? set, /? show and /? shortcuts

Enclose a text of several lines in \"\"\". Ctrl-C stops an answer.
The path of an image, such as ./cat.png, sends the image if the model has vision.
";

const SET: &str = "\
  /set parameter NAME VALUE  Set a parameter, for example num_ctx or temperature
  /set system TEXT           Set the system message
  /set history               Record typed lines in the history
  /set nohistory             Do not record them
  /set wordwrap              Break lines between words
  /set nowordwrap            Do not break lines
  /set format HOW            Answer in JSON; HOW is json, a JSON Schema, or the path of a file with one
  /set noformat              Disable the answer format
  /set verbose               Print token counts and times after an answer
  /set quiet                 Do not print them
  /set think [HOW]           Think before answering; HOW is high, medium, low or max
  /set nothink               Answer without thinking
";

const SHOW: &str = "\
  /show info                 Architecture, size and capabilities
  /show license              Its licence
  /show modelfile            Its Modelfile
  /show parameters           Its parameters, and those of this session
  /show system               The current system message
  /show template             Its chat template
";

const SHORTCUTS: &str = "\
  Ctrl-A, Ctrl-E     To the beginning of the line, to its end
  Ctrl-B, Ctrl-F     One character back, forward
  Alt-B, Alt-F       One word back, forward
  Ctrl-K, Ctrl-U     Delete to the end of the line, to its beginning
  Ctrl-W             Delete the previous word
  Ctrl-L             Clear the screen
  Up, Down, Ctrl-R   Browse the history; search it
  Ctrl-C             Stop an answer
  Ctrl-D             Leave
";

/// Returns the help text of a topic.
pub(super) fn text(topic: Topic) -> &'static str {
    match topic {
        Topic::All => ALL,
        Topic::Set => SET,
        Topic::Show => SHOW,
        Topic::Shortcuts => SHORTCUTS,
    }
}
