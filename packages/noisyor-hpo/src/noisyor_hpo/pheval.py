"""A runner for PhEval, which scores rankings of diseases on corpora of phenopackets.

PhEval finds the runner through the entry point ``pheval.plugins`` under the name ``noisyor``. Its
settings are the ``tool_specific_configuration_options`` in ``config.yaml`` of the input folder.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars
from pheval.post_processing.post_processing import SortOrder, generate_disease_result
from pheval.runners.runner import PhEvalRunner

from noisyor._util.files import to_json, write_atomically
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor_hpo import DiseaseModel, rank_diseases, read_phenopackets
from noisyor_hpo.model_file import prepare_model
from noisyor_hpo.posterior import DiseasePrior

__all__ = ["NoisyOrImplementation"]

_SCHEMA = {"disease_identifier": polars.String, "score": polars.Float64}


@dataclass(frozen=True)
class RunnerOptions:
    """Settings of a run.

    Attributes
    ----------
    annotations, ontology : files, relative to the input folder.
    prior : as in `noisyor_hpo.rank_diseases`.
    omim_only : rank the diseases of OMIM only.
    top : number of diseases reported for each patient. PhEval searches a table of many thousand
        rows for each of them, so reporting all would take minutes.
    """

    annotations: str | None = None
    ontology: str | None = None
    prior: DiseasePrior = "one"
    omim_only: bool = False
    top: int = 100

    @staticmethod
    def of(given: Any) -> RunnerOptions:
        """Read the settings of a configuration; missing ones keep their defaults."""
        given = given or {}
        known = asdict(RunnerOptions())
        if not isinstance(given, dict) or set(given) - set(known):
            raise InvalidSettingError(
                f"tool_specific_configuration_options are {', '.join(known)}, got {given!r}"
            )
        return RunnerOptions(**given)


class NoisyOrImplementation(PhEvalRunner):  # type: ignore[misc]  # PhEval has no types
    """Rank the diseases of every phenopacket of a corpus by its phenotypes.

    PhEval calls `prepare`, `run` and `post_process` one after another.
    """

    def prepare(self) -> str:
        """Check the configuration, build the model and return the version of its annotations."""
        config = self.input_dir_config
        if config.variant_analysis or config.gene_analysis or not config.disease_analysis:
            raise InvalidSettingError(
                "noisyor ranks diseases: config.yaml needs disease_analysis: true, and "
                "variant_analysis and gene_analysis: false"
            )
        return self.model.version

    def run(self) -> None:
        """Write the ranked diseases of each patient, ``raw_results/<name>.json``."""
        options, model = self.options, self.model
        for file in self._phenopackets():
            ranked: list[dict[str, Any]] = []
            try:
                patients = read_phenopackets(file, model.ontology)
            except InvalidDataError as error:
                # A patient without terms counts as missed, and the run goes on.
                logging.getLogger(__name__).warning("%s", error)
                patients = ()
            for patient in patients:
                ranking = rank_diseases(model, patient, prior=options.prior, top=options.top)
                ranked += [
                    {"id": disease.id, "name": disease.name, "score": disease.probability}
                    for disease in ranking.diseases
                ]
            text = to_json(ranked, indent=1)
            write_atomically(self.raw_results_dir / f"{file.stem}.json", text.encode())

    def post_process(self) -> None:
        """Convert the results to PhEval's format."""
        for file in self._phenopackets():
            raw = self.raw_results_dir / file.name
            ranked = json.loads(raw.read_text(encoding="utf-8"))
            generate_disease_result(
                results=polars.DataFrame(
                    {
                        "disease_identifier": [disease["id"] for disease in ranked],
                        "score": [disease["score"] for disease in ranked],
                    },
                    schema=_SCHEMA,
                ),
                sort_order=SortOrder.DESCENDING,
                output_dir=Path(self.output_dir),
                result_path=raw,
                phenopacket_dir=self._corpus(),
            )

    @cached_property
    def options(self) -> RunnerOptions:
        """Settings of this run."""
        return RunnerOptions.of(self.input_dir_config.tool_specific_configuration_options)

    @cached_property
    def model(self) -> DiseaseModel:
        """The disease model."""
        annotations, ontology = (
            None if name is None else Path(self.input_dir) / name
            for name in (self.options.annotations, self.options.ontology)
        )
        databases = ("OMIM",) if self.options.omim_only else None
        return prepare_model(annotations, ontology, databases=databases)

    def _corpus(self) -> Path:
        return Path(self.testdata_dir) / "phenopackets"

    def _phenopackets(self) -> list[Path]:
        files = sorted(self._corpus().glob("*.json"))
        if not files:
            raise InvalidDataError(f"{self._corpus()} holds no phenopacket (*.json)")
        return files
