"""What the beginning of a sign-in has to hold (daemon contract, G1)."""

from trunkline_sdk.daemon.messages import Authorization


def lacking(method: str, begun: Authorization, redirect_uri: str) -> list[str]:
    """What is missing for this method, in words; `redirect_uri` is the daemon's or the requested one."""
    if method == "device":
        needed = {
            "device code": begun.secrets.device_code,
            "user code": begun.user_code,
            "verification address": begun.verification_uri,
        }
    else:
        needed = {
            "authorization address": begun.authorization_url,
            "state": begun.secrets.state,
            "verifier": begun.secrets.verifier,
            "redirect address": redirect_uri,
        }
    return [what for what, value in needed.items() if not value.strip()]
