"""Channels: where a process takes the jobs of one queue in, and how much of it."""

from dataclasses import KW_ONLY, dataclass, field

from tidegate.errors import ConfigurationError
from tidegate.flow.policies import LimitPolicyT, as_policies
from tidegate.flow.scopes import ChannelScope
from tidegate.model.capacity import MessageLimits, check_message_limits
from tidegate.model.names import check_name


@dataclass(frozen=True, slots=True)
class Channel:
    """One process's intake from one queue.

    Attributes:
        address: the queue's name, 1 to 200 characters.
        limits: what one worker holds of this queue at once, from claim to outcome; None for no more than it may at all.
        limit_policies: policies of the application that each message from here must pass before it runs.

    Raises:
        InvalidName: the address is no legal name.
        InvalidType: ``limits`` is no ``MessageLimits``, or ``limit_policies`` is no collection of policies.
    """

    address: str
    _: KW_ONLY
    limits: MessageLimits | None = None
    limit_policies: tuple[LimitPolicyT, ...] = field(default=(), hash=False)

    def __post_init__(self) -> None:
        check_name(self.address, "address")
        if self.limits is not None:
            check_message_limits(self.limits, "limits")
        object.__setattr__(self, "limit_policies", as_policies(self.limit_policies, "limit_policies"))

    @property
    def scope(self) -> ChannelScope:
        """What a worker's capacity is told of it."""
        return ChannelScope(address=self.address, limits=self.limits, limit_policies=self.limit_policies)


def as_channel(channel: Channel | str) -> Channel:
    """Return the channel; a text is short for the channel of that address.

    Raises:
        ConfigurationError: it is neither.
        InvalidName: the text is no legal name.
    """
    if isinstance(channel, str):
        return Channel(channel)
    if not isinstance(channel, Channel):
        raise ConfigurationError(f"channel must be a Channel or a queue's name; got {type(channel).__name__}")
    return channel
