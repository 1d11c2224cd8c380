"""The coding agent `mini-swe-agent` over the protocols of `litellm`

Arguments: host, name of the model, folder. Solves the task in a folder of its own for each protocol.
"""

import os
import sys
from pathlib import Path

host, model, folder = sys.argv[1:]
os.environ |= {
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MSWEA_CONFIGURED": "1",
    "MSWEA_COST_TRACKING": "ignore_errors",
    "MSWEA_GLOBAL_CONFIG_DIR": folder,
    "MSWEA_SILENT_STARTUP": "1",
    "OPENAI_API_KEY": "unused",
    "ANTHROPIC_API_KEY": "unused",
}
from minisweagent.run.mini import app

PROTOCOLS = {
    "chat": ("openai", f"{host}/v1", "litellm"),
    "responses": ("openai", f"{host}/v1", "litellm_response"),
    "ollama": ("ollama_chat", host, "litellm"),
    "anthropic": ("anthropic", host, "litellm"),
}
for name, (provider, base, kind) in PROTOCOLS.items():
    os.chdir(Path(folder, name))
    options = ["--model", f"{provider}/{model}", "--model-class", kind, "--output", "trajectory.json"]
    settings = ["mini.yaml", f"model.model_kwargs.api_base={base}", "agent.step_limit=5"]
    # Commands run without confirmation, and the program ends after the last one.
    options += ["--yolo", "--exit-immediately", "--task", "Repair sum.sh."]
    app([*options, *(word for setting in settings for word in ("--config", setting))], standalone_mode=False)
