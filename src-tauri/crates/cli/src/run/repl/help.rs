//! What `/?` prints.

use super::command::Topic;

const ALL: &str = "\
Commands:
  /set            Set parameters and how things are shown
  /show           Show what is known of the model
  /load MODEL     Go on with another model; what was said is forgotten
  /save NAME      Save the model with this session's system message, parameters and messages
  /clear          Forget what was said
  /list           List models
  /bye            Leave (or Ctrl-D)
  /?, /help       This help; /? set, /? show and /? shortcuts tell more

\"\"\" begins a text of several lines and ends it. Ctrl-C stops an answer.
";

const SET: &str = "\
  /set parameter NAME VALUE  Set a parameter, num_ctx or temperature for instance
  /set system TEXT           Set the system message
  /set history               Remember lines that were typed
  /set nohistory             Do not remember them
  /set wordwrap              Break lines between words
  /set nowordwrap            Leave lines as they are
  /set format json           (not supported yet)
  /set noformat              Answers have no format
  /set verbose               Print what an answer cost
  /set quiet                 Do not
  /set think [HOW]           Think before answering; HOW is high, medium, low or max
  /set nothink               Answer at once
";

const SHOW: &str = "\
  /show info                 What the model is
  /show license              Its licence
  /show modelfile            Its Modelfile
  /show parameters           Its parameters, and those of this session
  /show system               The system message that holds
  /show template             Its chat template
";

const SHORTCUTS: &str = "\
  Ctrl-A, Ctrl-E     To the beginning of the line, to its end
  Ctrl-B, Ctrl-F     One character back, one on
  Alt-B, Alt-F       One word back, one on
  Ctrl-K, Ctrl-U     Delete what follows, what precedes
  Ctrl-W             Delete the word before
  Ctrl-L             Clear the screen
  Up, Down, Ctrl-R   Lines that were typed before; search them
  Ctrl-C             Stop an answer
  Ctrl-D             Leave
";

/// The help on a topic.
pub(super) fn text(topic: Topic) -> &'static str {
    match topic {
        Topic::All => ALL,
        Topic::Set => SET,
        Topic::Show => SHOW,
        Topic::Shortcuts => SHORTCUTS,
    }
}
