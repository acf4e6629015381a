"""``tact()`` without numbers beside other people's samplers, on targets with exact truths."""
