from seedbed import VMBuilder


class VMBuilderScript(VMBuilder):
    def setup(self):
        pass

    def create(self):
        return "<domain/>"

    def prepare(self):
        pass

    def install(self):
        pass

    def cleanup(self):
        pass
