"""The commands of `purerl`, one file each; `purerl.cli.main` imports the one that is typed."""
