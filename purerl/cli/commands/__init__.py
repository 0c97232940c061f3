"""The commands of `purerl`, one file each; `purerl.cli.main` imports only the requested one."""
