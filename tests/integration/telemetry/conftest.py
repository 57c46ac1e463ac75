from collections.abc import Iterator

import pytest

from tests.support.otlp_collector import OtlpCollector, otlp_collector


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpCollector]:
    """A collector that the standard variables name."""
    with otlp_collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        yield collector
