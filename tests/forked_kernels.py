"""Kernels for nbval that begin with torch and others imported: each is a fork of one process that has done it.

Both editions of all lessons are run at every push, and in each the imports cost seconds. `conftest.py` calls
`install` on Linux.
"""

import json
import os
import signal
import subprocess
import sys
import time

from jupyter_client.provisioning import local_provisioner

IMPORTS = """
import json, os, signal, sys
import einops, ipykernel.kernelapp, ipykernel.zmqshell, matplotlib.pyplot, numpy, torch
import torch._dynamo  # what the first optimizer of a process imports, 900 modules
import torchvision.models
from vit_course.data import shapes10
threads = torch.get_num_threads()
torch.set_num_threads(1)  # no child can use the threads of its parent
drawn = shapes10()  # what is in use need not be drawn again
torch.set_num_threads(threads)
"""
SERVE = """
import json, os, signal, sys
import ipykernel.kernelapp
here, answers = os.environ.get("PYTHONPATH"), os.fdopen(int(sys.argv[1]), "w")  # no other line stands in this pipe
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children, so none is left as a zombie
for line in sys.stdin:
    job = json.loads(line)
    pid = os.fork()
    if not pid:
        answers.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setpgid(0, 0)
        os.environ.clear()
        os.environ.update(job["env"])
        sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        if os.environ.get("PYTHONPATH") != here:  # another course's package
            for name in [name for name in sys.modules if name.startswith(("vit_course", "vit_classroom"))]:
                del sys.modules[name]
        os.chdir(job["cwd"])
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        sys.argv = job["argv"]
        try:
            ipykernel.kernelapp.launch_new_instance()
        finally:
            os._exit(0)
    try:
        os.setpgid(pid, pid)
    except OSError:
        pass  # the child was faster
    print(pid, file=answers, flush=True)
"""
parents = []


class ForkedKernel:
    """A kernel as `jupyter_client` handles one: what it needs of `subprocess.Popen`."""

    stdin = stdout = stderr = None

    def __init__(self, pid):
        self.pid, self.returncode = pid, None

    def poll(self):
        """Return None while the kernel lives."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            self.returncode = 0
        return self.returncode

    def wait(self, timeout=None):
        """Wait for the kernel's end."""
        until = time.monotonic() + (timeout or 60)
        while self.poll() is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("kernel", timeout)
            time.sleep(0.02)
        return self.returncode

    def send_signal(self, number):
        """Send a signal."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        """Ask the kernel to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self):
        """End the kernel."""
        self.send_signal(signal.SIGKILL)


def start_parent(imports=IMPORTS):
    """Start the process that is forked; return it, and what reads the process numbers of its forks.

    They come through a pipe of their own: on its standard output libraries and progress bars write what they like.
    """
    reading, writing = os.pipe()
    command = [sys.executable, "-c", imports + SERVE, str(writing)]
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "text": True, "pass_fds": [writing]}
    parent = subprocess.Popen(command, **options)
    os.close(writing)
    return parent, os.fdopen(reading)


def fork_kernel(command, env=None, cwd=None, **options):
    """Start the kernel of a command `python -m ipykernel_launcher -f FILE`, as a fork."""
    if not parents:
        parents.append(start_parent())
    parent, answers = parents[0]
    job = {"env": dict(env or os.environ), "cwd": str(cwd or os.getcwd()), "argv": command[2:]}
    parent.stdin.write(json.dumps(job) + "\n")
    parent.stdin.flush()
    return ForkedKernel(int(answers.readline()))


def install():
    """Let `jupyter_client` fork its kernels in this process."""
    local_provisioner.launch_kernel = fork_kernel
