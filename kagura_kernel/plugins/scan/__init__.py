"""The static scan: what a plugin's files would do, found without running any of them."""

from __future__ import annotations

from kagura_kernel.plugins.scan.scanner import Scan, ScanResult, Use, scan_content, scan_path

__all__ = ["Scan", "ScanResult", "Use", "scan_content", "scan_path"]
