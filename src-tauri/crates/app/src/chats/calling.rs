//! Calls of tools in an answer: the user's consent, the calls, and their results.
//!
//! **Invariants:** a call runs only if its tool's permission at that time is `always`, or the user allowed this call. Results are
//! texts of other programs. The model reads them, and nothing here interprets them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use cairn_chats::{CallDecision, Chats, StepCall, StepCallState};
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::ask;
use super::error::Error;
use super::handle::ChatSessions;
use super::ids::new_id;
use super::live::Live;
use crate::inference::{Image, ToolCall};
use crate::tools::{OfferedTool, Permission, ToolResult, Toolbox};
use crate::values::excerpt;

/// Most bytes of all results of an answer.
const MAX_RESULTS_BYTES: usize = 1 << 20;
/// Longest id of a call that a server of models chooses.
const MAX_ID_BYTES: usize = 64;

/// What happens to a call next.
enum CallPlan {
    /// It has its final state.
    Ended,
    /// It runs.
    Run(OfferedTool),
    /// The user decides.
    Ask(OfferedTool, oneshot::Receiver<CallDecision>),
}

impl ChatSessions {
    /// Decides on a call that waits. `Always` and `Never` are also stored as the permission of its tool.
    ///
    /// # Errors
    /// If the call does not wait, or the permission cannot be stored. The call still waits then.
    pub async fn decide_call(&self, id: &str, call: &str, decision: CallDecision) -> Result<(), Error> {
        let missing = || Error::NoCall(call.to_owned());
        let live = self.state.live.lock().get(id).cloned().flatten().ok_or_else(missing)?;
        let OfferedTool { origin, tool, .. } = live.waiting_tool(call).ok_or_else(missing)?;
        let permission = match decision {
            CallDecision::Always => Some(Permission::Always),
            CallDecision::Never => Some(Permission::Never),
            CallDecision::Once | CallDecision::Refuse => None,
        };
        if let Some(permission) = permission {
            self.tools.permit(&origin, tool, permission).await?;
        }
        if live.decide(call, decision) { Ok(()) } else { Err(missing()) }
    }

    /// Adds a step with these calls, and runs them at the same time. Returns the images of each result. Calls after the first
    /// `limit` fail, and with `refusal` all calls do.
    pub(super) async fn run_calls(
        &self,
        live: &Arc<Live>,
        chats: &Arc<Chats>,
        toolbox: &Toolbox,
        calls: Vec<ToolCall>,
        limit: usize,
        refusal: Option<String>,
    ) -> Vec<Vec<Image>> {
        let step = live.progress().steps.len();
        let (mut planned, mut plans) = (Vec::new(), Vec::new());
        let mut ids = used_ids(live);
        for (number, call) in calls.into_iter().enumerate() {
            let refusal = match number < limit {
                true => refusal.clone(),
                false => Some(format!("A step can have {limit} calls.")),
            };
            let (call, plan) = self.plan(live, toolbox, call, refusal, &mut ids);
            planned.push(call);
            plans.push(plan);
        }
        let mut images = vec![Vec::new(); planned.len()];
        live.add_step(planned);
        // A call is stored before it runs.
        self.write_progress(live, chats).await;
        let mut running = JoinSet::new();
        for (number, plan) in plans.into_iter().enumerate() {
            if matches!(plan, CallPlan::Ended) {
                continue;
            }
            let run = CallRun {
                sessions: self.clone(),
                live: Arc::clone(live),
                toolbox: toolbox.clone(),
                place: (step, number),
            };
            running.spawn(async move { (number, run.complete(plan).await) });
        }
        while let Some(ended) = running.join_next().await {
            match ended {
                Ok((number, found)) => images[number] = found,
                Err(error) => tracing::error!(%error, "a call of a tool was aborted"),
            }
            self.write_progress(live, chats).await;
        }
        images
    }

    /// Returns a call in its first state.
    fn plan(
        &self,
        live: &Live,
        toolbox: &Toolbox,
        call: ToolCall,
        refusal: Option<String>,
        ids: &mut BTreeSet<String>,
    ) -> (StepCall, CallPlan) {
        let ToolCall { id, name, arguments } = call;
        let is_plain = |id: &String| {
            let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(is_valid)
        };
        // The id is a part of a path, and must be unique.
        let id = id.filter(|id| is_plain(id) && !ids.contains(id)).unwrap_or_else(new_id);
        ids.insert(id.clone());
        let offered = toolbox.find(&name);
        let (origin, tool) = offered.map_or_else(
            || (String::new(), name.clone()),
            |offered| (offered.origin.clone(), offered.tool.name.clone()),
        );
        let (arguments, has_arguments) = match arguments {
            Value::Object(arguments) => (arguments, true),
            Value::Null => (Map::new(), true),
            _ => (Map::new(), false),
        };
        let mut call = StepCall {
            id,
            function: name,
            origin,
            tool,
            arguments,
            state: StepCallState::Failed,
            result: None,
            truncated: false,
            images: 0,
            duration_ms: None,
        };
        let failure = match offered {
            _ if refusal.is_some() => refusal,
            None => Some(format!("No tool is named {:?}.", excerpt(&call.function))),
            Some(_) if !has_arguments => Some("The arguments must be an object.".to_owned()),
            Some(_) => None,
        };
        let Some(offered) = offered.filter(|_| failure.is_none()) else {
            call.result = failure;
            return (call, CallPlan::Ended);
        };
        let plan = match self.tools.permission(offered) {
            Some(Permission::Always) => {
                call.state = StepCallState::Running;
                CallPlan::Run(offered.clone())
            }
            Some(Permission::Ask) => {
                call.state = StepCallState::Waiting;
                // Registered before a client can see the call.
                CallPlan::Ask(offered.clone(), live.wait_for_user(&call.id, offered.clone()))
            }
            Some(Permission::Never) => {
                call.state = StepCallState::Refused;
                CallPlan::Ended
            }
            None => {
                call.result = Some(turned_off(offered));
                CallPlan::Ended
            }
        };
        (call, plan)
    }
}

/// A call that waits or runs.
struct CallRun {
    sessions: ChatSessions,
    live: Arc<Live>,
    toolbox: Toolbox,
    /// Index of the step, and number of the call in it.
    place: (usize, usize),
}

impl CallRun {
    /// Waits for the user if necessary, and runs the call. Returns the images of the result.
    async fn complete(&self, plan: CallPlan) -> Vec<Image> {
        let offered = match plan {
            CallPlan::Ended => return Vec::new(),
            CallPlan::Run(offered) => offered,
            CallPlan::Ask(offered, decision) => match decision.await {
                Ok(CallDecision::Once | CallDecision::Always) => offered,
                Ok(CallDecision::Refuse | CallDecision::Never) => {
                    self.change(|call, _| call.state = StepCallState::Refused);
                    return Vec::new();
                }
                // The sender lives as long as the answer.
                Err(_) => return Vec::new(),
            },
        };
        // The tool may have been turned off while the user was asked.
        if self.sessions.tools.permission(&offered).is_none() {
            self.change(|call, _| {
                call.state = StepCallState::Failed;
                call.result = Some(turned_off(&offered));
            });
            return Vec::new();
        }
        let mut arguments = Map::new();
        self.change(|call, _| {
            call.state = StepCallState::Running;
            arguments.clone_from(&call.arguments);
        });
        let since = Instant::now();
        let result = self.toolbox.call(&offered.function, arguments).await;
        let images: Vec<Image> = result.images.iter().map(|image| ask::image(&image.data)).collect();
        let duration_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.change(|call, result_bytes| {
            call.duration_ms = Some(duration_ms);
            set_result(call, result, MAX_RESULTS_BYTES.saturating_sub(result_bytes));
        });
        images
    }

    fn change(&self, change: impl FnOnce(&mut StepCall, usize)) {
        let (step, number) = self.place;
        self.live.change_call(step, number, change);
    }
}

/// Stores a result of at most `limit` bytes, and a note if it was cut.
fn set_result(call: &mut StepCall, result: ToolResult, limit: usize) {
    let ToolResult { mut text, images, is_error, is_truncated } = result;
    call.truncated = is_truncated || text.len() > limit;
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
        text += &format!("\n[The text was cut: all results of an answer can have {MAX_RESULTS_BYTES} bytes.]");
    }
    call.state = if is_error { StepCallState::Failed } else { StepCallState::Done };
    call.result = Some(text);
    call.images = u32::try_from(images.len()).unwrap_or(u32::MAX);
}

fn turned_off(offered: &OfferedTool) -> String {
    format!("The tool was turned off: {}.", offered.origin)
}

/// Returns the ids of all calls of an answer.
fn used_ids(live: &Live) -> BTreeSet<String> {
    live.progress().steps.into_iter().flat_map(|step| step.calls).map(|call| call.id).collect()
}

#[cfg(test)]
mod tests;
