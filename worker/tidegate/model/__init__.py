"""The vocabulary: names, durations, limits, queues, jobs and manifests, with every bound and cross-field rule.

Pure: pydantic and the standard library, no I/O and no clock. Other layers ask these modules what is legal and never
repeat a bound of their own; SQL, the CLI and the API server are tested against the same table of examples.
"""
