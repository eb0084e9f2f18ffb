"""What several processes share: counters, messages, leases. In memory for one process, on Valkey or Redis for several.

While that server is away, what needs a counter or a lease fails at once with `StoreUnavailable`, and all else goes on. It is tried
again by itself.
"""

from trunkline.store.shared.blocks import Blocks
from trunkline.store.shared.contract import Bus, Callback, Counters, Lease, Leases, Listener, Shared
from trunkline.store.shared.opening import open_shared

__all__ = ["Blocks", "Bus", "Callback", "Counters", "Lease", "Leases", "Listener", "Shared", "open_shared"]
