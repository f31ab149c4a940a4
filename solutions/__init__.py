"""The answers, each once; what trains, measures and compares the Vision Transformer; and the exercises' notebooks as text.

The modules are read from top to bottom, the notebooks are in a folder for each assignment.
"""
