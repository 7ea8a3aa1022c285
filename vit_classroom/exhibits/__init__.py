"""What one lesson alone shows: each file or folder is used by one lesson, and `classroom` is what several share.

`attention_table` (lesson 04), `mini_vit` (06: the small model of the student, and its loop), `broken_runs` (07),
`play` (06 and 09, and the web book), `clinic` (14), `sample_photos` (17).
"""
