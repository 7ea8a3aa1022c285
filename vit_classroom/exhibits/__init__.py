"""What one lesson alone shows: each file or folder is used by one lesson, and `classroom` is what several share.

`cls_token` (lesson 02), `encoder_input` (03), `attention_table` and `heads` (04), `mini_vit` (06: the small model of the
student, and its loop), `play` (06 and 09, and the web book), `broken_runs` (07), `clinic` (14), `sample_photos` (17).
"""
