"""Train the Vision Transformer and the decoder: the recipe, the data, and the recorded experiments.

train.py          the training loop, and the command: `python -m solutions.training.train`
settings.py       what a run may vary
fast_vit.py       the same model, computed with less work
record.py         the record of a run
data.py           MNIST, digits, CIFAR-10 and folders of images
text.py           texts, for the decoder, and writing with it
architectures.py  the models that are compared
optimizers.py     AdamW and Muon
checkpoints.py    weights in files
classify.py       a trained model on your own images
experiments.py    the recorded experiments, one command for all
plans.py          what they run
plain_recipe.py   the recipe that ours is compared with
wrong_digits.py   what a trained model gets wrong
"""
