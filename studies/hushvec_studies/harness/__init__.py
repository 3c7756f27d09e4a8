"""Shared by the studies: the one way from a plan to a report.

    settings        a model of `settings`, whose fields are the options of the command
    plan            the study's list of measurements, grids of choices, each with a key that names it
    measured        `measurements`: what is missing is made, by `workers` if there are several, and kept; what is there is read
    report          `outputs`, `tables` and `charts`: JSON, CSV, LaTeX and figures from the rows

A program that measures everything in one go, in minutes, has no plan: it goes from settings to `outputs`.
"""
