"""What the programs of this folder share: documents, judges, measures, systems, results, figures."""
