"""Workers in a sandbox: what this machine can enforce, what is applied, and what probes found to hold.

    policy     what a worker may read and use            features   what this kernel offers, found by trying
    planning   both → a tier and the steps, in order     inside     the steps themselves, in the process that becomes the worker
    launch     starts one                                report     per control: enforced, partial or absent, by probes

This file imports nothing: `inside` is loaded by a bare interpreter in which the server's packages are not there.
"""
