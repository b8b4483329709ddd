"""The channel to the worker: JSON, one object per line, over one file descriptor."""

import json
import os
import sys
import threading

# The longest line, either way.
MAX_LINE = 16 << 20
# The longest text in a message: what a script says is cut there.
MAX_TEXT = 1 << 20

LEVELS = ("info", "warn", "error")


class Gone(Exception):
    """The worker has closed its end."""


def text(value, limit=MAX_TEXT):
    """Any value as text that UTF-8 can carry: what it cannot is escaped, and what is too long is cut."""
    if not isinstance(value, str):
        value = str(value)
    value = value.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(value) > limit:
        value = value[: limit // 2] + "\n[%d characters left out]\n" % (len(value) - limit) + value[-(limit // 2) :]
    return value


class Channel:
    """Sends messages and asks for changes. Only the process that made it may."""

    def __init__(self, fd):
        os.set_inheritable(fd, False)
        self._fd = fd
        self._pid = os.getpid()
        self._buffer = bytearray()
        self._sending = threading.Lock()
        self._asking = threading.Lock()
        self._next = 0
        self._open = False  # whether a step runs: calls are answered only then

    @property
    def own(self):
        """Whether this process made the channel, and is not a child of the one that did."""
        return os.getpid() == self._pid

    def send(self, message):
        """Sends one message. Raises ValueError if it is longer than a line may be."""
        line = json.dumps(message).encode("ascii") + b"\n"
        if len(line) > MAX_LINE:
            raise ValueError("a message of %d bytes: at most %d can be sent" % (len(line), MAX_LINE))
        view = memoryview(line)
        with self._sending:
            while view:
                try:
                    view = view[os.write(self._fd, view) :]
                except BrokenPipeError:
                    raise Gone("the worker has gone") from None

    def receive(self):
        """Returns the next message, or None if there are no more."""
        while True:
            at = self._buffer.find(b"\n")
            if at >= 0:
                line = bytes(self._buffer[:at])
                del self._buffer[: at + 1]
                return json.loads(line)
            if len(self._buffer) > MAX_LINE:
                raise ValueError("a line from the worker is longer than %d bytes" % MAX_LINE)
            try:
                more = os.read(self._fd, 1 << 16)
            except ConnectionResetError:
                more = b""
            if not more:
                return None
            self._buffer += more

    def log(self, level, msg):
        """Adds a line to the job's log. There is no answer."""
        if not self.own:
            print(text(msg), file=sys.stderr, flush=True)
            return
        self.send({"op": "log", "level": level, "msg": text(msg)})

    def call(self, name, /, **args):
        """Asks the worker for a change. Returns (whether it was made, the message)."""
        if not self.own:
            return False, "ERROR: %s: a child process of the script cannot change volumes; call it from the script itself" % name
        with self._asking:
            if not self._open:
                return False, "ERROR: %s: volumes can be changed only while a step of the script runs" % name
            self._next += 1
            self.send({"op": "call", "id": self._next, "name": name, "args": {k: text(v) for k, v in args.items()}})
            answer = self.receive()
            if answer is None:
                raise Gone("the worker has gone")
            if answer.get("op") != "answer" or answer.get("id") != self._next:
                raise Gone("the worker answered another question: %r" % (answer,))
            return bool(answer.get("ok")), str(answer.get("message", ""))

    def step(self, running):
        """Says whether a step runs; waits for a call of another thread to be answered."""
        with self._asking:
            self._open = running


class Detached:
    """Used without a worker: a script can then be imported and inspected, but not run."""

    own = True

    def log(self, level, msg):
        print("%s: %s" % (level, text(msg)), file=sys.stderr)

    def call(self, name, /, **args):
        return False, "ERROR: %s: no worker is there" % name


# The channel of this process. The session sets it.
current = Detached()


def use(channel):
    """Sets the channel that the library uses."""
    global current
    current = channel
    return channel
