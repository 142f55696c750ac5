"""What the doctor finds: a place, what is wrong there, and a way out."""
import dataclasses


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    line: int        # in a script; 0 in a model file
    kind: str        # 'missing', 'refused', 'argument', 'syntax' or 'differs'
    name: str
    text: str
    way_out: str = ''

    @property
    def stops(self):
        """Whether the program ends there; where it does not, numbers or behaviour are others."""
        return self.kind != 'differs'

    def __str__(self):
        where = f'line {self.line}: ' if self.line else ''
        return f'{where}{self.text}' + (f'\n      way out: {self.way_out}' if self.way_out else '')
