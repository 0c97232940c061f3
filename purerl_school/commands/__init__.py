"""The commands `purerl exercise` and `purerl lab`."""
