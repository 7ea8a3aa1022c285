"""What one lesson alone shows: each file or folder is used by one lesson, and `classroom` is what several share.

`at_work` (lesson 00), `patch_matrix` (01), `cls_token` (02), `encoder_input` (03), `attention_table` and `heads` (04),
`deep_stacks` and `block_figures` (05), `mini_vit` (06: the small model of a student, and its loop), `broken_runs` (07),
`play` (06 and 09, and the web book), `whole_model` (06), `hidden_photos` (09), `mini_hybrid` (11),
`transfer_runs` (12), `clinic` (14), `two_towers` (17).
"""
