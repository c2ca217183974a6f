"""What fleet.yaml may say of the machine under a server: its GPUs, and how it is started."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from gateway.policy.scalars import Address

Text = Annotated[str, Field(min_length=1)]
Amount = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A mapping in a file: no unknown keys, no conversion between types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class GpusSection(Section):
    """Where the gateway reads of a server's GPUs."""

    exporter: Address = Field(
        description="Address of AMD's device-metrics-exporter.", examples=["http://127.0.0.1:5000"]
    )
    ids: list[Amount] = Field(
        min_length=1, description="Numbers of the server's GPUs as the exporter counts them.", examples=[[0]]
    )


class LaunchSection(Section):
    """How `specroute launch` starts a server; of its flags the gateway reads which parameters it refuses."""

    tensor_parallel: Count = Field(default=1, description="GPUs the server is spread over.")
    gpus: list[Amount] | None = Field(
        default=None, description="Numbers of the GPUs it gets; left out: the next free ones."
    )
    args: dict[str, bool | int | float | Text] = Field(
        default_factory=dict,
        description="Further flags of vLLM without --; true is a bare flag, false its --no- form.",
    )
    env: dict[str, str] = Field(default_factory=dict, description="Further environment variables.")
    speculative: dict[str, Any] = Field(
        default_factory=dict, description="Further keys of --speculative-config."
    )
    block_size: Count | None = Field(
        default=None, description="Block size of the draft, where its checkpoint is not at hand."
    )
    image: Text | None = Field(default=None, description="Container image.")
    hardware: str = Field(default="", description="GPU that the values were measured on.")
