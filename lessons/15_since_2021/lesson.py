# ---
# title: "Since 2021"
# promise: "You give your ViT parts that did not exist in 2021, and find out which of them you can see."
# part: "III. Beyond"
# minutes: 75
# map: [attention, position, pool]
# recall: ["04.2", "03.1", "12.1"]
# goals:
#   - "Say."
# ---

# %% [markdown]
# ## 1. X

# %% exercise="vit_course.beyond.modern:qk_norm" difficulty=1 minutes=6 hint="a" hint2="b"

# %% exercise="vit_course.beyond.modern:rope_2d" difficulty=3 minutes=15 hint="a" hint2="b"

# %% exercise="vit_course.beyond.modern:attention_pool" difficulty=1 minutes=6 hint="a" hint2="b"

# %% exercise="vit_course.beyond.modern:merge_tokens" difficulty=3 minutes=15 hint="a" hint2="b"
