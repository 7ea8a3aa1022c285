"""The exercise of lesson 07 that is answered by reading plots."""


def read_curves() -> dict[str, int]:
    """Say what happened in the runs A to F. Give every plot the number of one diagnosis; each fits one plot at most.

    1. Nothing is wrong: the training pictures are harder than the validation pictures.
    2. The learning rate is far too high.
    3. The learning rate is zero long before the end: the schedule was made for fewer steps.
    4. The weights start far too large: the model is sure of nonsense at step 0.
    5. The model learns its few training pictures by heart.
    6. The training pictures come sorted by class.
    7. The validation labels are in another order than the validation pictures.
    8. The pictures are not shown to the model: every picture is replaced by zeros.

    Returns:
        A dict from "A", "B", "C", "D", "E" and "F" to the number of the diagnosis.
    """
    return {"A": 6, "B": 3, "C": 1, "D": 2, "E": 5, "F": 7}
