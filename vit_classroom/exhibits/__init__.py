"""What one lesson alone shows: each file or folder is used by one lesson, and `classroom` is what several share.

`attention_table` and `heads` (lesson 04), `deep_stacks` and `block_figures` (05), `mini_vit` (06: the small model
of the student, and its loop), `broken_runs` (07), `explorer` (09), `clinic` (14), `sample_photos` (17).
"""
